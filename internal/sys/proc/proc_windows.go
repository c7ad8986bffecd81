package proc

func prepare(*Cmd) {}

// GentleDeath does nothing here: only Linux tells a child that its parent has died.
func GentleDeath(*Cmd) {}

// Windows has no SIGTERM and no process groups of this kind; both steps of the ladder end the child alone.
func terminate(cmd *Cmd) error { return cmd.Process.Kill() }

func kill(cmd *Cmd) error { return cmd.Process.Kill() }

func wait(cmd *Cmd, _ func() bool) error { return cmd.Wait() }
