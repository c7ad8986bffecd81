// Package developer measures what people do with a source tree: walk it, ask for the status of every file, look for
// modules where they are not, unpack it, remove it, edit a file in it, commit to an embedded database, compile it.
//
// It is opinionated. The work is generated from the seed and needs no tool in the environment, so that it is the same
// everywhere; only dev.build runs a real compiler. Each kind makes the system calls of the real program, in their order
// and proportion; a comment at the code names the source, with the command that shows the calls again. A unit of work
// is small and all units have the same mixture, so that a slow target, which does fewer units, does the same work. On
// Linux an operation is one bare system call relative to an open directory; elsewhere, and with the build tag
// "portable", it goes through the standard library.
//
// # A real build
//
// Kind dev.build compiles a generated C project with the environment's own make and cc. Your own project is weighed
// with the kind command. In a plan, for a tree that lies in the environment:
//
//	workloads:
//	  - kind: command
//	    dir: /home/me/project
//	    prepare: make clean
//	    command: make -j2
//
// or, to have the sources copied to where the work is weighed, each time anew and outside the clock:
//
//	workloads:
//	  - kind: command
//	    prepare: rm -rf project && cp -a /home/me/project .
//	    command: make -C project -j2
//
// and for Go, with a cache of its own, because a build that finds everything in it measures nothing:
//
//	workloads:
//	  - kind: command
//	    dir: /home/me/project
//	    prepare: rm -rf /home/me/cache
//	    command: GOCACHE=/home/me/cache GOFLAGS=-mod=vendor go build ./...
package developer
