"""`mqlearn doctor`: what a numerical tool should prove on the machine at hand before its numbers are believed."""

from mqlearn.cli.doctor.command import doctor

__all__ = ["doctor"]
