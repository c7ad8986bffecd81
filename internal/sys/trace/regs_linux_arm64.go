package trace

// Where the first three arguments of a system call lie in the kernel's struct pt_regs, in bytes: x0, x1 and x2.
const (
	argumentsAt                             = 0
	firstArgument, secondArgument, thirdArg = 0, 8, 16 // from there
)
