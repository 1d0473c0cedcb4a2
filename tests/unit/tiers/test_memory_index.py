from __future__ import annotations

import pytest

from tiers.markdown import (
    IndexLine,
    fit_block,
    human_part,
    index_line,
    linked_paths,
    parse_index_line,
    replace_block,
)

BEGIN, END = "<!-- tiermem:begin -->", "<!-- tiermem:end -->"
A, B = "- [A](a.md) — first", "- [B](b.md) — second"


def file(*lines: str, newline: str = "\n") -> bytes:
    return "".join(line + newline for line in lines).encode()


def test_an_index_line_has_the_clients_format() -> None:
    assert index_line("Use uv", "use-uv.md", "not pip") == "- [Use uv](use-uv.md) — not pip"
    assert index_line("Use uv", "use-uv.md") == "- [Use uv](use-uv.md)"
    assert parse_index_line("- [Use uv](use-uv.md) — not pip\n") == IndexLine(
        "Use uv", "use-uv.md", "not pip"
    )


def test_an_index_line_escapes_what_would_break_it() -> None:
    line = index_line("a [b] \\ c\nd", "x y (1) é#.md", "e\r\nf <!-- g")
    assert line == "- [a \\[b\\] \\\\ c d](x%20y%20%281%29%20é%23.md) — e f &lt;!-- g"
    assert parse_index_line(line) == IndexLine("a [b] \\ c d", "x y (1) é#.md", "e f <!-- g")
    assert linked_paths(line) == {"x y (1) é#.md"}


@pytest.mark.parametrize(
    ("name", "hook"), [("n" * 500, "h" * 500), ("[" * 500, ""), ("n", "é " * 300)]
)
def test_an_index_line_has_at_most_200_characters(name: str, hook: str) -> None:
    line = index_line(name, "p.md", hook)
    assert len(line) <= 200
    parsed = parse_index_line(line)
    assert parsed is not None
    assert (parsed.hook or parsed.name).endswith("…")


@pytest.mark.parametrize(
    "line",
    ["- [ ] todo", "- [x] done", "- [D](https://x.y)", "- [D](/abs.md)", "* [A](a.md)", "text"],
)
def test_lines_of_people_are_no_index_lines(line: str) -> None:
    assert parse_index_line(line) is None


def test_links_of_a_text_are_found_by_path() -> None:
    text = 'see [a](a.md), [b](./sub/b%20c.md#x) [w](https://w.x) [t](t.md "title") [l](<l.md>)'
    assert linked_paths(text) == {"a.md", "sub/b c.md", "t.md", "l.md"}


def test_a_block_is_appended_where_there_is_none() -> None:
    assert replace_block(b"", [A]) == file(BEGIN, A, END)
    assert replace_block(b"# Mine", [A]) == file("# Mine", "", BEGIN, A, END)
    assert replace_block(b"# Mine\r\n", [A]) == file("# Mine", "", BEGIN, A, END, newline="\r\n")
    assert replace_block(b"# Mine\n\n", [A]) == file("# Mine", "", BEGIN, A, END)
    assert replace_block(b"# Mine", []) == b"# Mine"


def test_a_block_is_replaced_and_nothing_outside_it_touched() -> None:
    before, after = b"\xef\xbb\xbf# Mine \r\nmixed\n", b"\n  - tail\r\nno newline"
    raw = before + file(BEGIN, A, END) + after
    assert replace_block(raw, [B]) == before + file(BEGIN, B, END, newline="\r\n") + after
    assert replace_block(raw, []) == before + file(BEGIN, END, newline="\r\n") + after


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [b"", b"\n"])
def test_the_end_of_a_file_and_its_bom_stay_as_they_are(bom: bytes, last: bytes) -> None:
    raw = bom + f"{BEGIN}\n{A}\n{END}".encode() + last
    assert replace_block(raw, [A]) == raw
    assert replace_block(raw, [B]) == raw.replace(A.encode(), B.encode())


def test_human_lines_in_the_block_move_to_right_after_it() -> None:
    raw = file(
        "top", BEGIN, A, "my note", "", "- [ ] todo", "… and 4 more: tiermem list", END, "end"
    )
    assert replace_block(raw, [B]) == file("top", BEGIN, B, END, "my note", "- [ ] todo", "end")
    at_end = f"{BEGIN}\nmy note\n{A}\n{END}".encode()
    assert replace_block(at_end, [B]) == file(BEGIN, B, END, "my note")


def test_the_human_part_is_all_that_people_wrote() -> None:
    raw = b"\xef\xbb\xbf" + file("top", BEGIN, A, "my note", END, "end", newline="\r\n")
    assert human_part(raw) == "top\nmy note\nend\n"
    assert human_part(b"") == ""
    assert human_part(b"caf\xe9") == "caf\ufffd"


def test_below_a_mark_that_nothing_closes_only_repeated_lines_go() -> None:
    raw = file("top", BEGIN, A, B, "my note", "", "end")
    assert replace_block(raw, [A]) == file("top", BEGIN, A, END, B, "my note", "", "end")
    assert human_part(raw) == "top\n" + A + "\n" + B + "\nmy note\n\nend\n"


def test_of_two_blocks_the_first_is_kept_and_no_human_line_lost() -> None:
    raw = file("top", BEGIN, A, "one", END, "mid", BEGIN, B, "two", END, "end")
    assert replace_block(raw, [A]) == file("top", BEGIN, A, END, "one", "mid", "two", "end")


def test_other_broken_marks_are_taken_out() -> None:
    assert replace_block(file("a", END, "b"), [A]) == file("a", BEGIN, A, END, "b")
    assert replace_block(file(BEGIN, "x", BEGIN, B, END), [A]) == file("x", BEGIN, A, END)
    assert replace_block(file(BEGIN, B, END, "y", END), [A]) == file(BEGIN, A, END, "y")


def test_lines_that_fit_stay_as_they_are() -> None:
    assert fit_block([A, B], "") == [A, B]
    assert fit_block([], "human " * 10_000) == []


def test_lines_beyond_the_budget_become_one_pointer() -> None:
    lines = [f"- [{n}](n{n}.md)" for n in range(300)]
    human = "x\n" * 50

    fitted = fit_block(lines, human)

    assert fitted[-1] == f"… and {300 - len(fitted) + 1} more: tiermem list"
    assert fitted[:-1] == lines[: len(fitted) - 1]
    content = replace_block(human.encode(), fitted)
    assert len(content.splitlines()) in (199, 200)

    long = [f"- [{n}](n{n}.md) — {'é' * 150}" for n in range(150)]
    content = replace_block(human.replace("\n", "\r\n").encode(), fit_block(long, human))
    assert 24_000 < len(content) <= 25_000


def test_only_the_pointer_is_left_when_people_fill_the_budget() -> None:
    assert fit_block([A, B], "x\n" * 200) == ["… and 2 more: tiermem list"]
    assert fit_block([A, B], "x" * 25_000) == ["… and 2 more: tiermem list"]
    assert fit_block([A, B], "", max_lines=1, pointer=lambda n: f"{n} more") == ["2 more"]
