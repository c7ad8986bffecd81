package proc

func prepare(*Cmd) {}

// GentleDeath does nothing here: only Linux can signal a child when its parent dies.
func GentleDeath(*Cmd) {}

// Windows has neither SIGTERM nor such process groups; both steps of the ladder end only the child.
func terminate(cmd *Cmd) error { return cmd.Process.Kill() }

func kill(cmd *Cmd) error { return cmd.Process.Kill() }

func wait(cmd *Cmd, _ func() bool) error { return cmd.Wait() }
