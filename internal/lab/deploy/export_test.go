package deploy

import "io/fs"

// NewStoreFS is NewStore with the agents in files instead of those in the program.
func NewStoreFS(dir string, files fs.FS) *Store { return of(NewStore(dir), files) }

// NewTracersFS is NewTracers with the agents in files.
func NewTracersFS(dir string, files fs.FS) *Store { return of(NewTracers(dir), files) }

func of(s *Store, files fs.FS) *Store {
	s.files = files
	return s
}
