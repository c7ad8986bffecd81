// Package restore measures the restore of a backup: the work of an administrator who moves a forum to a new machine,
// which the study of disk images timed by hand.
//
// It is opinionated. The backup is generated from the seed, so that it is the same everywhere, and the expected result
// is known from the generator, not from unpacking. The stages run one after the other, so that each has its own
// figures; a pipeline would be faster on a machine with idle processors, but would tell less. Everything is verified:
// digests before a file is used, every tree and every row afterwards.
//
// # The stages
//
//  1. verify: each file of the backup is named by its MD5 digest. Files in the cache are read and compared; new ones,
//     the two deltas, are copied into it and compared during the copy.
//  2. unpack: two tar.bz2 archives become trees. Entries outside the tree, and links that lead out of it, are refused.
//  3. merge: the full SQL dump and two streams of later rows, all bz2 and in the order of their keys, become one dump
//     with the latest row of each key.
//  4. load: a private PostgreSQL takes the merged dump in one transaction and writes a checkpoint. Left out with
//     load=none.
//  5. sync: the file system flushes everything that is not on stable storage yet.
//
// With tools=own tare does every stage except the server, and nothing has to be installed; with tools=environment the
// environment's bzip2 decompresses and its psql loads.
package restore
