from __future__ import annotations

import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.errors import UsageError
from memory.importers import ImportFailure, ImportItem, ImportOptions, discover
from memory.importers.items import MAX_BYTES
from tiers.records import Importance, MemoryRecord, MemoryType, Origin, Tier, to_json

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def write_lines(path: Path, *lines: dict[str, Any] | str) -> Path:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return write(path, text + "\n")


def split(
    *paths: Path, options: ImportOptions | None = None
) -> tuple[list[ImportItem], list[ImportFailure]]:
    found = list(discover(paths, options))
    return (
        [item for item in found if isinstance(item, ImportItem)],
        [item for item in found if isinstance(item, ImportFailure)],
    )


def items(*paths: Path, options: ImportOptions | None = None) -> list[ImportItem]:
    good, bad = split(*paths, options=options)
    assert bad == []
    return good


def failures(*paths: Path, options: ImportOptions | None = None) -> list[ImportFailure]:
    good, bad = split(*paths, options=options)
    assert good == []
    return bad


class TestAFolderThatWasInView:
    def test_topics_come_with_their_frontmatter(self, tmp_path: Path) -> None:
        write(tmp_path / "memory/MEMORY.md", "- [Use uv](uv.md) — not pip\n")
        write(
            tmp_path / "memory/uv.md",
            "---\nname: Use uv\ndescription: not pip\nmetadata:\n  type: feedback\n"
            "tags: [python, tools]\nimportance: high\nauthor: Kim\n---\n\nTake uv.\n",
        )

        (topic,) = items(tmp_path / "memory")

        assert (topic.name, topic.description, topic.text) == ("Use uv", "not pip", "Take uv.")
        assert (topic.type, topic.importance) == (MemoryType.FEEDBACK, Importance.HIGH)
        assert topic.tags == ("python", "tools")
        assert topic.extra["author"] == "Kim"
        assert topic.hot_hint

    def test_what_people_wrote_into_the_index_is_a_memory_of_its_own(self, tmp_path: Path) -> None:
        write(tmp_path / "a.md", "Text of a.\n")
        write(
            tmp_path / "MEMORY.md",
            "# Notes\n\nWe ship on Tuesdays.\n\n- [A](a.md) — of a\n- [Gone](gone.md) — lost\n",
        )

        index = items(tmp_path)[0]

        assert index.name == "Overview from MEMORY.md"
        assert index.text.startswith("# Notes\n\nWe ship on Tuesdays.")
        assert "a.md" not in index.text
        assert "gone.md" in index.text, "a line whose file is missing is all there is of it"

    def test_an_index_that_only_points_is_no_memory(self, tmp_path: Path) -> None:
        write(tmp_path / "a.md", "Text of a.\n")
        write(tmp_path / "MEMORY.md", "# Memory\n\n- [A](a.md) — of a\n")

        assert [item.name for item in items(tmp_path)] == ["a"]

    def test_the_samples_all_load(self) -> None:
        found = items(EXAMPLES / "memories")

        assert len(found) == 14
        assert all(item.hot_hint and not item.problems for item in found)
        assert {item.type for item in found if not item.name.startswith("Overview")} == set(
            MemoryType
        )
        assert next(item for item in found if item.pinned).name == "Money is integer cents"


class TestATree:
    def test_files_without_frontmatter_go_by_their_own_name(self, tmp_path: Path) -> None:
        write(tmp_path / "docs/setup.md", "# Setup\n\nRun it.\n")

        (item,) = items(tmp_path)

        assert (item.name, item.text) == ("setup", "# Setup\n\nRun it.")
        assert not item.hot_hint

    def test_the_order_is_that_of_names(self, tmp_path: Path) -> None:
        for name in ("b.md", "a.md", "c/a.md", "b/z.md"):
            write(tmp_path / name, "text")

        found = [item.source_path.relative_to(tmp_path).as_posix() for item in items(tmp_path)]

        assert found == ["a.md", "b.md", "b/z.md", "c/a.md"]

    def test_hidden_and_foreign_folders_are_left_alone(self, tmp_path: Path) -> None:
        for name in (".git/a.md", ".obsidian/a.md", "node_modules/x/a.md", ".a.md", "a.py"):
            write(tmp_path / name, "text")

        assert items(tmp_path) == []

    def test_a_loop_of_links_ends(self, tmp_path: Path) -> None:
        write(tmp_path / "sub/a.md", "text")
        (tmp_path / "sub/up").symlink_to(tmp_path)
        (tmp_path / "self.md").symlink_to(tmp_path / "self.md")

        assert len(items(tmp_path)) == 1

    def test_a_link_to_a_file_of_the_tree_is_no_second_memory(self, tmp_path: Path) -> None:
        write(tmp_path / "AGENTS.md", "text")
        (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")

        assert [item.name for item in items(tmp_path)] == ["AGENTS"]

    @pytest.mark.parametrize("target", ["outside", "outside/secret.md"])
    def test_a_link_that_leaves_the_tree_is_reported_and_not_followed(
        self, tmp_path: Path, target: str
    ) -> None:
        write(tmp_path / "outside/secret.md", "text")
        write(tmp_path / "tree/a.md", "text")
        (tmp_path / "tree/link.md").symlink_to(tmp_path / target)

        good, bad = split(tmp_path / "tree")

        assert [item.name for item in good] == ["a"]
        assert [(failure.path.name, failure.line) for failure in bad] == [("link.md", None)]
        assert "leaves the folder" in bad[0].reason

    def test_one_bad_file_does_not_stop_the_others(self, tmp_path: Path) -> None:
        write(tmp_path / "a.md", "")
        write(tmp_path / "b.md", b"x" * (MAX_BYTES + 1))
        os.mkfifo(tmp_path / "c.md")
        write(tmp_path / "d.md", "good")

        good, bad = split(tmp_path)

        assert [item.text for item in good] == ["good"]
        assert [(failure.path.name, failure.reason) for failure in bad] == [
            ("a.md", "has no text"),
            ("b.md", "is larger than 4 MB"),
            ("c.md", "is no ordinary file"),
        ]

    def test_a_header_that_does_not_parse_is_a_problem_and_not_a_loss(self, tmp_path: Path) -> None:
        write(tmp_path / "a.md", "---\nname: [unclosed\n---\n\nThe text is fine.\n")

        (item,) = items(tmp_path)

        assert "The text is fine." in item.text
        assert item.problems

    def test_a_large_file_and_odd_bytes_load(self, tmp_path: Path) -> None:
        write(tmp_path / "large.md", "line\n" * 20_000)
        write(tmp_path / "latin.md", b"caf\xe9 au lait")

        large, latin = items(tmp_path)

        assert len(large.text) == 99_999
        assert "au lait" in latin.text
        assert latin.problems

    def test_a_lifetime_without_a_date_counts_from_when_the_file_was_written(
        self, tmp_path: Path
    ) -> None:
        path = write(tmp_path / "a.md", "---\nttl: 2d\n---\ntext\n")
        os.utime(path, (1_700_000_000, 1_700_000_000))

        assert items(path)[0].expires_at == datetime(2023, 11, 16, 22, 13, 20, tzinfo=UTC)

    def test_an_id_of_ours_is_kept_and_a_foreign_one_is_not_taken_for_ours(
        self, tmp_path: Path
    ) -> None:
        ours = "0198c1de-0000-7000-8000-000000000001"
        write(tmp_path / "a.md", f"---\nid: {ours}\n---\ntext\n")
        write(tmp_path / "b.md", "---\nid: note-7\n---\ntext\n")

        assert [item.id for item in items(tmp_path)] == [ours, None]

    def test_keys_stay_the_same_and_differ_between_trees(self, tmp_path: Path) -> None:
        for tree in ("one/docs", "two/docs"):
            write(tmp_path / tree / "README.md", "text")

        first = items(tmp_path / "one/docs", tmp_path / "two/docs")
        by_itself = items(tmp_path / "one/docs/README.md")

        assert [item.key for item in first] == ["one/docs/README.md", "two/docs/README.md"]
        assert by_itself[0].key == first[0].key

    @pytest.mark.parametrize(
        ("name", "reason"), [("nothing.md", "no such file"), ("a.pdf", "neither markdown")]
    )
    def test_a_path_that_cannot_be_imported_is_reported(
        self, tmp_path: Path, name: str, reason: str
    ) -> None:
        write(tmp_path / "a.pdf", "text")

        (failure,) = failures(tmp_path / name)

        assert failure.path == tmp_path / name
        assert reason in failure.reason


class TestLines:
    def test_the_plain_form_needs_no_options(self, tmp_path: Path) -> None:
        path = write_lines(
            tmp_path / "facts.jsonl",
            {
                "id": "f1",
                "text": "We ship on Tuesdays.",
                "name": "Shipping",
                "type": "project",
                "tags": ["release", 7],
                "keywords": "day, week",
                "importance": "high",
                "pinned": True,
                "created_at": "2026-05-08T13:56",
                "source": "wiki",
            },
        )

        (item,) = items(path)

        assert item.key == f"{tmp_path.parent.name}/{tmp_path.name}/facts#f1"
        assert (item.name, item.text) == ("Shipping", "We ship on Tuesdays.")
        assert (item.type, item.importance, item.pinned) == (
            MemoryType.PROJECT,
            Importance.HIGH,
            True,
        )
        assert (item.tags, item.keywords) == (("release", "7"), ("day", "week"))
        assert item.created_at == datetime(2026, 5, 8, 13, 56, tzinfo=UTC)
        assert (item.thread, item.position) == ("facts", 0)
        assert item.extra == {"source": "wiki"}
        assert item.id is None

    def test_fields_of_other_names_are_mapped_and_the_text_is_built(self, tmp_path: Path) -> None:
        path = write_lines(
            tmp_path / "conv-1.documents.jsonl",
            {"doc_id": "D1:1", "date": "2023-05-08", "who": "Ana", "text": "Hi!", "image": None},
            {"doc_id": "D1:2", "date": "2023-05-08", "who": "Bo", "text": "Look", "image": "a cat"},
        )
        options = ImportOptions.parse(
            ["name=doc_id", "created_at=date"], "[{date}] {who}: {text} {image}"
        )

        found = items(path, options=options)

        assert [item.text for item in found] == [
            "[2023-05-08] Ana: Hi!",
            "[2023-05-08] Bo: Look a cat",
        ]
        assert [item.name for item in found] == ["D1:1", "D1:2"]
        assert [(item.thread, item.position) for item in found] == [
            ("conv-1.documents", 0),
            ("conv-1.documents", 1),
        ]
        assert found[0].created_at == datetime(2023, 5, 8, tzinfo=UTC)
        assert found[0].extra == {}

    def test_a_field_that_some_lines_lack_is_empty_there(self, tmp_path: Path) -> None:
        path = write_lines(tmp_path / "a.jsonl", {"text": "Hi"}, {"text": "Look", "image": "a cat"})

        found = items(path, options=ImportOptions.parse(text="{text} {image}"))

        assert [item.text for item in found] == ["Hi", "Look a cat"]

    def test_a_mapped_thread_has_positions_of_its_own(self, tmp_path: Path) -> None:
        path = write_lines(
            tmp_path / "chat.jsonl",
            *({"text": f"turn {turn}", "session": session} for turn, session in enumerate("abab")),
        )

        found = items(path, options=ImportOptions.parse(["thread=session"]))

        assert [(item.thread, item.position) for item in found] == [
            ("a", 0),
            ("b", 0),
            ("a", 1),
            ("b", 1),
        ]

    def test_a_compressed_file_has_the_keys_of_the_plain_one(self, tmp_path: Path) -> None:
        plain = write_lines(tmp_path / "facts.jsonl", {"id": 1, "text": "one"})
        packed = write(tmp_path / "facts.jsonl.gz", gzip.compress(plain.read_bytes()))

        assert items(packed)[0].key == items(plain)[0].key

    def test_bad_lines_are_reported_with_their_number_and_the_rest_goes_on(
        self, tmp_path: Path
    ) -> None:
        path = write_lines(
            tmp_path / "facts.jsonl",
            {"text": "first"},
            "{not json",
            '["a list"]',
            {"text": ""},
            {"message": "elsewhere"},
            '{"text": "half \\ud800"}',
            '{"text": "x", "score": NaN}',
            "",
            {"text": "last"},
        )

        good, bad = split(path)

        assert [(item.text, item.position) for item in good] == [("first", 0), ("last", 7)]
        assert [failure.line for failure in bad] == [2, 3, 4, 5, 6, 7]
        for failure, words in zip(
            bad, ("no JSON", "no JSON object", "empty", "--field", "no UTF-8", "NaN"), strict=True
        ):
            assert words in failure.reason

    def test_odd_bytes_and_endless_lines_are_reported(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "facts.jsonl",
            b'\xef\xbb\xbf{"text": "first"}\r\n{"text": "\xe9"}\n'
            b'{"text": "' + b"x" * (2 * MAX_BYTES) + b'"}\n{"text": "last"}',
        )

        good, bad = split(path)

        assert [item.text for item in good] == ["first", "last"]
        assert [failure.line for failure in bad] == [2, 3]

    def test_a_truncated_archive_gives_what_it_has(self, tmp_path: Path) -> None:
        lines = "".join(f'{{"text": "{os.urandom(64).hex()}"}}\n' for _ in range(500))
        whole = gzip.compress(lines.encode())
        path = write(tmp_path / "facts.jsonl.gz", whole[: len(whole) // 2])

        good, bad = split(path)

        assert good
        assert len(bad) == 1
        assert bad[0].line == len(good) + 1

    def test_deep_nesting_is_reported(self, tmp_path: Path) -> None:
        path = write(tmp_path / "facts.jsonl", "[" * 100_000 + "\n" + '{"text": "last"}\n')

        good, bad = split(path)

        assert [item.text for item in good] == ["last"]
        assert [failure.line for failure in bad] == [1]

    def test_a_value_that_cannot_be_ours_is_kept_as_it_is(self, tmp_path: Path) -> None:
        path = write_lines(
            tmp_path / "facts.jsonl", {"text": "x", "type": "message", "created_at": "yesterday"}
        )

        (item,) = items(path)

        assert (item.type, item.created_at) == (None, None)
        assert item.extra == {"type": "message", "created_at": "yesterday"}
        assert [problem.partition(":")[0] for problem in item.problems] == ["type", "created_at"]

    @pytest.mark.parametrize("stamp", [1683554160, 1683554160.0, 1683554160000])
    def test_times_may_be_seconds_or_milliseconds(self, tmp_path: Path, stamp: float) -> None:
        path = write_lines(tmp_path / "facts.jsonl", {"text": "x", "created_at": stamp})

        assert items(path)[0].created_at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)

    def test_lines_of_one_name_are_told_apart(self, tmp_path: Path) -> None:
        path = write_lines(
            tmp_path / "facts.jsonl", *({"text": text, "name": "note"} for text in "abc")
        )

        keys = [item.key for item in items(path)]

        assert len(set(keys)) == 3
        assert keys == [item.key for item in items(path)]

    def test_an_export_comes_back_unchanged(self, tmp_path: Path) -> None:
        record = MemoryRecord(
            id="0198c1de-0000-7000-8000-000000000001",
            project="p",
            name="Umlaute: äöü",
            body="line\n\n    code\n",
            revision=4,
            type=MemoryType.USER,
            tags=("a", "b"),
            origin=Origin.HUMAN,
            thread="t",
            position=3,
            created_at=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
            updated_at=datetime(2026, 2, 2, tzinfo=UTC),
            expires_at=datetime(2027, 2, 2, tzinfo=UTC),
            extra={"nested": {"n": [1, 2]}},
        )

        (item,) = items(
            write_lines(tmp_path / "e.jsonl", to_json(record) | {"tier": str(Tier.HOT)})
        )

        assert item.record == record
        assert (item.id, item.key, item.text) == (record.id, record.id, record.body)

    @pytest.mark.parametrize("change", [{"id": "7"}, {"type": "odd"}, {"body": 5}])
    def test_an_export_that_was_damaged_is_reported(
        self, tmp_path: Path, change: dict[str, Any]
    ) -> None:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        record = MemoryRecord(
            id="0198c1de-0000-7000-8000-000000000001",
            project="p",
            name="n",
            body="b",
            created_at=now,
            updated_at=now,
        )

        (failure,) = failures(write_lines(tmp_path / "e.jsonl", to_json(record) | change))

        assert failure.line == 1

    def test_the_sample_conversation_loads(self) -> None:
        options = ImportOptions.parse(
            ["name=turn", "created_at=date"], "[{date_text}] {speaker}: {text}"
        )

        found = items(EXAMPLES / "conversation.jsonl", options=options)

        assert [item.position for item in found] == list(range(43))
        assert found[0].text == "[4 May 2026] Bea: Morning! Did the weekend survive the new map?"


class TestOptions:
    @pytest.mark.parametrize(
        "fields",
        [["name"], ["=x"], ["name="], ["title=name"], ["name=a", "name=b"]],
    )
    def test_a_bad_field_is_refused_with_a_hint(self, fields: list[str]) -> None:
        with pytest.raises(UsageError) as raised:
            ImportOptions.parse(fields)

        assert "--field" in raised.value.message
        assert raised.value.hint != UsageError.default_hint

    @pytest.mark.parametrize(
        "text", ["", "no field", "{", "{}", "{a.__class__}", "{a[0]}", "{a!r}", "{a:>9}", "{a} }"]
    )
    def test_a_bad_template_is_refused_with_a_hint(self, text: str) -> None:
        with pytest.raises(UsageError) as raised:
            ImportOptions.parse(text=text)

        assert "--text" in raised.value.message
        assert raised.value.hint != UsageError.default_hint

    def test_text_cannot_be_told_twice(self) -> None:
        with pytest.raises(UsageError):
            ImportOptions.parse(["text=body"], "{body}")

    @pytest.mark.parametrize(
        ("template", "text"),
        [
            ("{{{a}}}", "{x}"),
            ("{missing} {a} {missing} {a}", "x x"),
            ("{a}: {code}", "x: if y:\n        z  = 1"),
            ("{list} {map}", '1, two {"k": true}'),
            ("{false}{zero}", "false0"),
        ],
    )
    def test_templates_leave_no_gaps_and_touch_no_value(
        self, tmp_path: Path, template: str, text: str
    ) -> None:
        values = {
            "a": "x",
            "code": "if y:\n        z  = 1\n",
            "list": [1, "two"],
            "map": {"k": True},
            "false": False,
            "zero": 0,
            "missing": None,
        }
        path = write_lines(tmp_path / "facts.jsonl", values)

        assert items(path, options=ImportOptions.parse(text=template))[0].text == text
