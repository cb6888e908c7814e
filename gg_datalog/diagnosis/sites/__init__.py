"""Places at which mistakes are looked for, with what each of them has to be asked."""
