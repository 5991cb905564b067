"""The dashboard's rows: throughput, latency, failures, capacity, cost, searches and tables."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_stepfunctions as sfn

from infra.gather_metrics import PERIOD, GatherMetrics
from infra.lambda_function import GatherFunction
from pixel_gather.core.metric_names import (
    FETCHED,
    GATHER,
    GATHER_USD,
    GATHERS_REFUSED,
    REQUESTS,
    RETRIES,
    SHARD,
    SOURCE_OPEN,
    SOURCE_READ,
    SOURCE_TOTAL,
    SOURCES_FAILED_BY_STATUS,
    SOURCES_READ,
    SPENT_USD,
    STORED,
)

_WIDTH: Final = 8
"""Three to a row of 24."""

_DAY: Final = Duration.days(1)

type _Row = list[cloudwatch.IWidget]


def dashboard_rows(
    *,
    metrics: GatherMetrics,
    state_machine: sfn.StateMachine,
    tables: sfn.StateMachine,
    workers: Sequence[tuple[GatherFunction, str]],
    throttles: Sequence[cloudwatch.IMetric],
    search: GatherFunction,
    rank: GatherFunction,
    api: apigateway.RestApi,
) -> list[_Row]:
    """Return the dashboard's widgets. Workers come with what they are of; those of tables last."""
    return [
        _throughput(metrics),
        _latency(metrics),
        _failures(metrics, state_machine),
        _capacity(metrics, workers, throttles),
        _cost(metrics),
        _searches(search, api),
        _tables(tables, rank, workers[-1][0]),
    ]


def _throughput(metrics: GatherMetrics) -> _Row:
    return [
        _graph("Sources a second", _per_second(metrics.sum(SOURCES_READ), "sources")),
        _graph(
            "Bytes a second",
            _per_second(metrics.sum(FETCHED), "fetched"),
            _per_second(metrics.sum(STORED), "stored"),
        ),
        _graph(
            "Requests a second",
            _per_second(metrics.sum(REQUESTS), "requests"),
            _per_second(metrics.sum(RETRIES), "retries"),
        ),
    ]


def _latency(metrics: GatherMetrics) -> _Row:
    return [
        _graph(f"{title} a source, seconds", *metrics.percentiles(metric, 50, 95, 99))
        for title, metric in (("Open", SOURCE_OPEN), ("Read", SOURCE_READ), ("In all", SOURCE_TOTAL))
    ]


def _failures(metrics: GatherMetrics, state_machine: sfn.StateMachine) -> _Row:
    by_status = [
        metrics.sum(metric, label=status.name.lower()) for status, metric in SOURCES_FAILED_BY_STATUS.items()
    ]
    return [
        _graph("Failed sources, by status", *by_status, is_stacked=True, width=2 * _WIDTH),
        _graph("Gathers", *_ends(state_machine), metrics.sum(GATHERS_REFUSED, label="refused")),
    ]


def _capacity(
    metrics: GatherMetrics,
    workers: Sequence[tuple[GatherFunction, str]],
    throttles: Sequence[cloudwatch.IMetric],
) -> _Row:
    running = [
        worker.function.metric(
            "ConcurrentExecutions",
            statistic="Maximum",
            period=Duration.minutes(1),
            label=f"workers of {of}",
        )
        for worker, of in workers
    ]
    return [
        _graph("Workers at one time", *running, is_stacked=True),
        _graph("Throttled invocations", *throttles, is_stacked=True),
        _graph("Seconds a shard", *metrics.percentiles(SHARD, 50, 95, 100)),
    ]


def _cost(metrics: GatherMetrics) -> _Row:
    return [
        _graph("Dollars a day, by our model", metrics.sum(SPENT_USD, label="dollars", period=_DAY)),
        _graph("Dollars a gather, by our model", metrics.average(GATHER_USD, label="dollars")),
        _graph("Seconds a gather", metrics.average(GATHER, label="seconds")),
    ]


def _searches(search: GatherFunction, api: apigateway.RestApi) -> _Row:
    """Return what the search function does, and what all paths of the API answer."""
    return [
        _graph(
            "Searches",
            search.function.metric_invocations(period=PERIOD, label="searches"),
            search.function.metric_errors(period=PERIOD, label="errors"),
        ),
        _graph("Milliseconds a search", *_durations(search)),
        _graph(
            "Answers of the API",
            api.metric_count(period=PERIOD, label="all"),
            api.metric_client_error(period=PERIOD, statistic="Sum", label="4xx"),
            api.metric_server_error(period=PERIOD, statistic="Sum", label="5xx"),
        ),
    ]


def _tables(state_machine: sfn.StateMachine, rank: GatherFunction, worker: GatherFunction) -> _Row:
    """Return how tables end, and how long small rankings and the tasks of tables take."""
    return [
        _graph("Tables and large rankings", *_ends(state_machine)),
        _graph("Milliseconds a small ranking", *_durations(rank)),
        _graph("Milliseconds a task of a table", *_durations(worker)),
    ]


def _ends(state_machine: sfn.StateMachine) -> list[cloudwatch.IMetric]:
    return [
        state_machine.metric_succeeded(period=PERIOD, label="succeeded"),
        state_machine.metric_failed(period=PERIOD, label="failed or refused"),
        state_machine.metric_timed_out(period=PERIOD, label="timed out"),
        state_machine.metric_aborted(period=PERIOD, label="stopped"),
    ]


def _durations(function: GatherFunction) -> list[cloudwatch.IMetric]:
    return [
        function.function.metric_duration(period=PERIOD, statistic=f"p{share}", label=f"p{share}")
        for share in (50, 95, 99)
    ]


def _per_second(metric: cloudwatch.Metric, label: str) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression=f"{label} / PERIOD({label})", using_metrics={label: metric}, label=label, period=PERIOD
    )


def _graph(
    title: str, *metrics: cloudwatch.IMetric, is_stacked: bool = False, width: int = _WIDTH
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title,
        left=list(metrics),
        stacked=is_stacked,
        width=width,
        left_y_axis=cloudwatch.YAxisProps(min=0, show_units=False),
    )
