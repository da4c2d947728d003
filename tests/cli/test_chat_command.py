"""`leadout chat`: turns, commands, reuse of what was read, and leaving."""

import signal

from commands import assert_one_line, leadout, lines_told, start

CHAT = ("--threads", "1", "--max-tokens", "8", "--temperature", "0")


def test_second_turn_reads_only_what_is_new(tiny):
    done = leadout("chat", tiny, *CHAT, "--draft", "ngram", input="one two three\nfour\n")
    assert done.returncode == 0
    opening, first, second = lines_told(done.stderr)
    assert "speculation on" in opening
    assert " 0 of them cached" in first
    prompt, cached = (
        int(part.split()[at])
        for part, at in zip(second.split(" | ")[-2].split(", ")[:2], (1, 0), strict=True)
    )
    assert prompt > cached > 20


def test_commands_change_the_conversation(tiny):
    commands = ("/help", "/draft", "/draft off", "/system Be brief.", "/reset", "/unknown", "/draft maybe")
    lines = (*commands, "", "hello", "/quit", "never")
    done = leadout("chat", tiny, *CHAT, "--draft", "ngram", input="\n".join(lines))
    assert done.returncode == 0
    said = done.stderr
    for part in (
        "/system TEXT",
        "speculation on: draft ngram",
        "speculation off: switched off with /draft off",
        "The system message is set.",
        "The conversation is empty.",
        "leadout: /unknown is no command",
        "leadout: /draft takes on, off or nothing, not 'maybe'",
    ):
        assert part in said
    assert said.count("tokens per target pass") == 1
    assert "Traceback" not in said


def test_draft_also_tells_what_became_of_the_last_answer(tiny):
    lines = ("/draft off", "hello", "/draft", "/draft on", "/quit")
    said = leadout("chat", tiny, *CHAT, "--draft", "ngram", input="\n".join(lines)).stderr
    off = "speculation off: switched off with /draft off"
    assert said.splitlines()[-4].endswith(off)  # of the answer
    assert said.splitlines()[-3] == off
    assert said.splitlines()[-2].startswith("speculation on: draft ngram")
    assert said.splitlines()[-1] == "in the last answer: off: switched off with /draft off"


def test_conversation_longer_than_the_context_says_so_and_goes_on(tiny):
    done = leadout("chat", tiny, *CHAT, "--ctx", "64", input="word " * 80 + "\n/reset\nhi\n")
    assert done.returncode == 0
    assert "leadout: the prompt has" in done.stderr
    assert done.stderr.count("tokens per target pass") == 1


def test_interrupt_stops_the_answer_and_the_chat_goes_on(tiny):
    process = start("chat", tiny, "--threads", "1", "--ctx", "60000", "--logit-bias", "2=-100")
    process.stdin.write(b"hello\n")
    seen = 0
    while seen < 200:
        seen += len(process.stdout.read(200 - seen))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(b"/draft\n/quit\n", timeout=30)
    assert process.returncode == 0
    assert b"tok/s" in err
    assert any(line.startswith(b"speculation on: draft suffix+ngram") for line in err.splitlines())
    assert b"Traceback" not in err


def test_interrupt_at_the_prompt_leaves(tiny):
    process = start("chat", tiny, *CHAT, "--draft", "none")
    process.stderr.readline()  # the model is loaded
    process.stdin.write(b"hello\n")
    process.stderr.readline()  # the answer is complete
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in out + err


def test_model_without_a_template_says_what_to_do(tiny_draft):
    assert_one_line(leadout("run", tiny_draft, "--draft", "none", "-p", "hi"), 2, "no chat template", "--raw")
    done = leadout("chat", tiny_draft, input="hi\n")
    assert "no chat template" in done.stderr
    assert "Traceback" not in done.stderr


def test_chat_that_answered_nothing_from_a_pipe_says_so_in_its_exit_code(tiny, tiny_draft):
    without_template = leadout("chat", tiny_draft, input="hi\n")
    assert_one_line(without_template, 2, "no chat template")
    too_long = leadout("chat", tiny, *CHAT, "--ctx", "64", "-q", input="word " * 80)
    assert_one_line(too_long, 2, "the prompt has")
    assert leadout("chat", tiny, *CHAT, "-q", input="").returncode == 0


def test_line_that_is_not_text_is_refused_and_the_chat_goes_on(tiny):
    done = leadout("chat", tiny, *CHAT, "-q", input=b"\xff\xfe\nhi\n")
    assert done.returncode == 0
    assert done.stderr == "leadout: this line is not UTF-8 text; give it in a file with --prompt-file\n"
    assert done.stdout
