package main

import "time"

// view is what the two ledgers and the logs say at one moment.
type view struct {
	runs       []run
	leases     []lease
	operations []operation
	changes    []change
	writes     []write
	entries    []entry
	refusals   []refusal
}

// run is one execution of a task.
type run struct {
	ID         string
	Task       string
	Status     string
	CreatedAt  time.Time
	FinishedAt *time.Time
}

// lease is one term of one run: who was given the right to write it.
type lease struct {
	Run      string
	Epoch    int64
	Owner    string
	Worker   string
	Takeover bool
	At       time.Time
}

// key names the term: the journal has it once.
func (l lease) key() lease { return lease{Run: l.Run, Epoch: l.Epoch} }

// write is one accepted write of a run: the ledger has one for each revision.
type write struct {
	Run      string
	Revision int64
	Kind     string
	Owner    string // "" for the operator's cancel
	Epoch    int64
	At       time.Time
}

func (w write) key() write { return write{Run: w.Run, Revision: w.Revision} }

// operation is a row of Leasehold's ledger of side effects.
type operation struct {
	ID         string
	Run        string
	Step       string
	Tool       string
	Status     string
	ResolvedBy string
	Attention  string
	Attempts   int
}

// change is one entry of an operation's journal.
type change struct {
	Operation string
	Revision  int64
	Entry     int64
	Kind      string
	From, To  string
	Basis     string
	At        time.Time
}

func (c change) key() change {
	return change{Operation: c.Operation, Revision: c.Revision, Entry: c.Entry}
}

// refusal is a call that the database refused, as the refused worker logged it.
type refusal struct {
	Worker string
	Run    string
	Owner  string
	Epoch  int64
	Reason string // lease_lost, or terminal: the run is over
	What   string // the call and the reason, in words
	At     time.Time
}

// of reports whether the refused call came from the holder of this term.
func (r refusal) of(l lease) bool {
	return r.Worker == l.Worker && r.Run == l.Run && r.Owner == l.Owner && r.Epoch == l.Epoch
}

func (v *view) runOf(task string) run {
	for _, r := range v.runs {
		if r.Task == task {
			return r
		}
	}
	return run{}
}

func (v *view) taskOf(runID string) string {
	for _, r := range v.runs {
		if r.ID == runID {
			return r.Task
		}
	}
	return ""
}

// term is the newest lease of a run; the zero lease if it never had one.
func (v *view) term(runID string) lease {
	var newest lease
	for _, l := range v.leases {
		if l.Run == runID && l.Epoch > newest.Epoch {
			newest = l
		}
	}
	return newest
}

func (v *view) operationsOf(runID string) []operation {
	var out []operation
	for _, o := range v.operations {
		if o.Run == runID {
			out = append(out, o)
		}
	}
	return out
}

func (v *view) operation(runID, step string) operation {
	for _, o := range v.operationsOf(runID) {
		if o.Step == step {
			return o
		}
	}
	return operation{}
}

// seen returns the service's entries of a kind for one operation.
func (v *view) seen(kind, operationID string) []entry {
	var out []entry
	for _, e := range v.entries {
		if e.Kind == kind && e.OperationID == operationID {
			out = append(out, e)
		}
	}
	return out
}

func (v *view) finished(task string) bool {
	switch v.runOf(task).Status {
	case "succeeded", "failed", "cancelled":
		return true
	}
	return false
}
