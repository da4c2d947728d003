import signal
import threading

import pytest

from leadout.models.interrupts import interrupts_wait


def test_an_interrupt_takes_effect_after_the_block():
    done = []

    def interrupted():
        with interrupts_wait():
            signal.raise_signal(signal.SIGINT)
            done.append("the block went on")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_without_an_interrupt_nothing_happens_and_the_handler_is_back():
    before = signal.getsignal(signal.SIGINT)
    with interrupts_wait():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_leave_signals_alone():
    seen = []

    def work():
        with interrupts_wait():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
