"""Where memories live: hot files, deep index, archive, and the queue between them."""
