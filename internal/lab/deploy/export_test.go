package deploy

import "io/fs"

// NewStoreFS is NewStore with agents from elsewhere than the program.
func NewStoreFS(dir string, files fs.FS) *Store {
	s := NewStore(dir)
	s.files = files
	return s
}
