"""Partitions of frames: k-means, k-medoids, micro states and their lumpings."""
