"""Verbs that tend memories: pin, unpin, promote, demote, feedback."""

from __future__ import annotations

import click
from rich.console import Console

from memory import wire
from memory.cli.session import Session, examples, global_option, scope_of, verb
from tiers.records import Tier


@click.command(epilog=examples("tiermem pin 'deploy checklist'"))
@click.argument("ref", metavar="ID")
@global_option
@verb
def pin(session: Session, ref: str, is_global: bool) -> int:
    """Keep a memory in its tier whatever the tier policy says."""
    return _pin(session, ref, is_global, is_pinned=True)


@click.command(epilog=examples("tiermem unpin 'deploy checklist'"))
@click.argument("ref", metavar="ID")
@global_option
@verb
def unpin(session: Session, ref: str, is_global: bool) -> int:
    """Let the tier policy move a memory again."""
    return _pin(session, ref, is_global, is_pinned=False)


def _pin(session: Session, ref: str, is_global: bool, *, is_pinned: bool) -> int:
    request = wire.PinRequest(
        project=session.project, scope=scope_of(is_global), ref=ref, pinned=is_pinned
    )
    receipt = session.ask("pin", request, wire.SaveAnswer)
    did = "pinned" if is_pinned else "not pinned"

    def render(console: Console) -> None:
        already = " already" if receipt.unchanged else ""
        console.print(f"{did}{already}: {receipt.name} ({receipt.tier})", markup=False)

    session.show(receipt, render)
    return 0


@click.command(epilog=examples("tiermem promote 'deploy checklist'"))
@click.argument("ref", metavar="ID")
@global_option
@verb
def promote(session: Session, ref: str, is_global: bool) -> int:
    """Make a memory hot: a file that every session starts with."""
    return _move(session, ref, Tier.HOT, is_global)


@click.command(epilog=examples("tiermem demote 'deploy checklist'"))
@click.argument("ref", metavar="ID")
@global_option
@verb
def demote(session: Session, ref: str, is_global: bool) -> int:
    """Take a memory out of the hot tier; it is still found by search.

    Its file goes when the other stores have it, and what somebody writes into it until then wins.
    """
    return _move(session, ref, Tier.DEEP, is_global)


def _move(session: Session, ref: str, tier: Tier, is_global: bool) -> int:
    request = wire.MoveRequest(project=session.project, scope=scope_of(is_global), ref=ref, to=tier)
    receipt = session.ask("move", request, wire.SaveAnswer)

    def render(console: Console) -> None:
        is_now = "is already" if receipt.unchanged else "is now"
        console.print(f"{receipt.name} {is_now} {receipt.tier}", markup=False)
        if receipt.path and receipt.tier is Tier.HOT:
            console.print(f"  {receipt.path}", markup=False)

    session.show(receipt, render)
    return 0


@click.command(
    epilog=examples(
        """
tiermem search "when do we deploy?"                 ends with a receipt
tiermem feedback 535121cf59b1 --used ee790745
tiermem feedback 535121cf59b1 --wrong 1b2c3d4e --ignored 5f6a7b8c
"""
    )
)
@click.argument("receipt")
@click.option("--used", multiple=True, metavar="ID", help="It helped.")
@click.option("--ignored", multiple=True, metavar="ID", help="It was of no use here.")
@click.option("--wrong", multiple=True, metavar="ID", help="It is false or outdated.")
@verb
def feedback(
    session: Session,
    receipt: str,
    used: tuple[str, ...],
    ignored: tuple[str, ...],
    wrong: tuple[str, ...],
) -> int:
    """Say which memories of a search helped, by the search's RECEIPT."""
    request = wire.FeedbackRequest(
        project=session.project,
        receipt=receipt,
        used=list(used),
        ignored=list(ignored),
        wrong=list(wrong),
    )
    answer = session.ask("feedback", request, wire.FeedbackAnswer)

    def render(console: Console) -> None:
        for record_id, said in answer.verdicts.items():
            console.print(f"{said}: {record_id}", markup=False)

    session.show(answer, render)
    return 0


COMMANDS = (pin, unpin, promote, demote, feedback)
