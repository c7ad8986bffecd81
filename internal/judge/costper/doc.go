// Package costper restates what a comparison found per thing that is paid for: a core, a gigahertz, a watt-hour, a
// price. And it answers what a faster environment is worth: when the time it saves has paid for it.
//
// It is opinionated about evidence. It computes from recorded facts only, writes every multiplication down, and refuses
// rather than guesses: figures of unequal topologies (with and without simultaneous multithreading), of an emulated
// processor, of a clock rate that nobody knows. A published study of 2014 divided the time of a machine with eight
// threads by the clock of one with four and made a virtual machine look 12 % worse than it was; here the figure and the
// topology come from the same target, so that mistake has no place to happen.
package costper
