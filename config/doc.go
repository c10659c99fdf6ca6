// Package config owns every knob of the gateway: its name, its unit, its
// default and its check. Nothing else in the module reads the config file.
//
// The file is YAML and is read strictly: a field that is not known, a field
// given twice, a number without its unit and a name that leads nowhere are
// faults. Load and Parse report all faults at once, each with file, line,
// column, the path of the field and what to change. A Config that they return
// without an error has passed every check, and is never changed afterwards.
//
// Values may hold ${NAME}, which is replaced by the environment variable of
// that name after the YAML was understood, so that a variable can never add
// structure; $$ stands for one dollar sign. A secret X may be given in place,
// or as X_file, a path whose content is read once, at load. Relative paths
// start at the folder of the config file.
//
// Secrets appear in no fault and in no printed form of a Config. Faults quote
// values as they stand in the file, with variables not yet replaced.
package config

//go:generate go test -run TestConfigurationPage -update .
