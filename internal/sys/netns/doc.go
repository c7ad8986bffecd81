// Package netns makes network namespaces without a name, and the network cards in them.
//
// It is opinionated about what is left behind: nothing. A namespace exists in a thread of this process, and in the
// files and sockets that were opened in it. The kernel removes it with all its cards when the last of these has ended,
// however it ends. The machine's own cards, routes and packet filters are never touched. All that shows outside is a
// device /dev/tapN, which the kernel makes and removes with each macvtap; it is not used.
package netns
