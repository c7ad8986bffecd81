package record

// Energy is the metric of the energy that a machine used for each unit of work, in J: all of the machine, with what it
// uses while it does nothing. The controller adds it to trials of plans that ask for it.
const Energy = "energy_per_unit"
