"""Write metrics in CloudWatch's embedded format to standard output, which Lambda logs."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from pixel_gather.core.metric_names import NAMESPACE, SERVICE, SERVICE_DIMENSION, STAGE_DIMENSION, Metric

_MOST_VALUES: Final = 100
"""Most values of one metric in one record. CloudWatch drops more without an error."""

_DECIMALS: Final = 6


class EmfMetrics:
    """Writes the metrics of one stage.

    Powertools serializes the records, and this class splits the values. Powertools' own `add_metric` would
    keep every value, too. But at each call it formats all values for a debug log: 94 ms for the 3,000 values
    of 1,000 sources. This class takes 3 ms.
    """

    def __init__(self, *, stage: str) -> None:
        self._provider = AmazonCloudWatchEMFProvider(namespace=NAMESPACE)
        self._dimensions = {SERVICE_DIMENSION: SERVICE, STAGE_DIMENSION: stage}

    def write(self, metrics: Mapping[Metric, Sequence[float]], **properties: Any) -> None:
        """Write all values, in as many records as needed.

        Properties, such as ``gather_id``, can be searched, but are no dimensions.
        """
        longest = max((len(values) for values in metrics.values()), default=0)
        for start in range(0, longest, _MOST_VALUES):
            part = {
                metric.name: {
                    "Unit": metric.unit.value,
                    "Value": [
                        round(float(value), _DECIMALS) for value in values[start : start + _MOST_VALUES]
                    ],
                }
                for metric, values in metrics.items()
                if len(values) > start
            }
            record = self._provider.serialize_metric_set(part, self._dimensions, properties)
            sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
        sys.stdout.flush()
