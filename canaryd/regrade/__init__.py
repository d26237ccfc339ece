"""Grading stored replies again: does today's grader still say what was stored, and does a verdict hang on which one?"""
