"""What a run says: relations as rows, findings and their codes, the report, all of it on disk."""
