"""Reference pages that are generated: of commands, findings, relations and views."""
