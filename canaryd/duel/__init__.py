"""Two retrieval substrates on paired questions, judged by two judges of two families in both orders."""
