"""Files that are read again and again."""

from collections.abc import Callable

from skewscope.adapters.runtime.blocking_calls import FILES
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch


async def poll_files(
    sink: BatchSink,
    context: SourceContext,
    period: float,
    read: Callable[[float], SourceBatch | None],
    find_trouble: Callable[[], str],
) -> None:
    """Reads files until cancelled.

    Args:
        sink: what is read, and the trouble that there is.
        context: gives the clock.
        period: seconds between two readings.
        read: returns what is new at a time, or raises OSError.
        find_trouble: says what is wrong after a reading; '' for nothing.
    """
    while True:
        try:
            if batch := await FILES.run(read, context.clock.now()):
                sink.put(batch)
            sink.trouble = find_trouble()
        except OSError as error:
            sink.trouble = str(error)
        await context.clock.sleep(period)
