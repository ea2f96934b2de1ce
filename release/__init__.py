"""What belongs to a release besides the wheel: its bill of materials, and the audit of the pinned packages."""
