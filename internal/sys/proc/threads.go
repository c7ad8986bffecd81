package proc

// Thread is a thread of a process.
type Thread struct {
	ID   int
	Name string
}
