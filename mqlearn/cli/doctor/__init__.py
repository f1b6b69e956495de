"""What a numerical tool should prove on the machine at hand before its numbers are believed."""
