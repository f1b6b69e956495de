"""The command line, `mqlearn VERB`: one file a verb."""
