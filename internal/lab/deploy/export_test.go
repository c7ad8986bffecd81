package deploy

import "io/fs"

// NewStoreFS is NewStore with the agents in files instead of those in the program.
func NewStoreFS(dir string, files fs.FS) *Store {
	s := NewStore(dir)
	s.files = files
	return s
}
