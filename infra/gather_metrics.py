"""The metrics that the functions of one deployment write, for alarms and the dashboard."""

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from msgspec import Struct

from pixel_gather.core.metric_names import NAMESPACE, SERVICE, SERVICE_DIMENSION, STAGE_DIMENSION, Metric

PERIOD: Final = Duration.minutes(5)


class GatherMetrics(Struct, frozen=True):
    """The metrics of one stage."""

    stage: str

    def sum(
        self, metric: Metric, *, label: str | None = None, period: Duration = PERIOD
    ) -> cloudwatch.Metric:
        """Return the total of each period."""
        return self._metric(metric, "Sum", label=label, period=period)

    def most(self, metric: Metric, *, period: Duration) -> cloudwatch.Metric:
        """Return the highest value of each period."""
        return self._metric(metric, "Maximum", label=None, period=period)

    def average(self, metric: Metric, *, label: str | None = None) -> cloudwatch.Metric:
        """Return the mean of each period."""
        return self._metric(metric, "Average", label=label, period=PERIOD)

    def percentiles(self, metric: Metric, *percents: int) -> list[cloudwatch.IMetric]:
        """Return several percentiles of each period."""
        return [self._metric(metric, f"p{each}", label=f"p{each}", period=PERIOD) for each in percents]

    def _metric(
        self, metric: Metric, statistic: str, *, label: str | None, period: Duration
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=metric.name,
            dimensions_map={SERVICE_DIMENSION: SERVICE, STAGE_DIMENSION: self.stage},
            statistic=statistic,
            label=label,
            period=period,
        )
