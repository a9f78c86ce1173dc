package store

// DoctorArcs and DoctorTriggers are the lists that tests hold against the
// protocol and the catalogue.
const (
	DoctorArcs     = doctorArcs
	DoctorTriggers = doctorTriggers
)
