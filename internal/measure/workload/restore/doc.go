// Package restore weighs the restoring of a backup: what an administrator does to bring a forum back on a new machine,
// and what the study of disk images timed by hand.
//
// It is opinionated. The backup is generated from the seed, so that it is the same everywhere, and what must come out
// of it is known from how it was made, not from what unpacks it. The stages run one after the other, because then each
// has figures of its own; a pipeline that overlaps them is shorter on a machine with processors to spare, and tells
// less. Nothing is believed: digests are compared before a file is used, every tree and every row afterwards.
//
// # The stages
//
//  1. verify: each file of the backup is named by its MD5 digest. Those that the cache holds are read and compared;
//     those
//     that are new, the two deltas, are copied into it and compared on the way.
//  2. unpack: two tar.bz2 archives become trees. Entries that would lie or lead outside are refused.
//  3. merge: the full SQL dump and two streams of later rows, all bz2 and in the order of their keys, become one dump
//     in
//     which the latest row of each key stands.
//  4. load: a private PostgreSQL takes the merged dump in one transaction and writes a checkpoint. Left out with
//     load=none.
//  5. sync: the file system brings to stable storage what is not there yet.
//
// With tools=own every stage but the server is tare's, and nothing has to be installed; with tools=environment the
// environment's bzip2 decompresses and its psql loads.
package restore
