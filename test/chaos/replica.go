package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasehold/leasehold/test/lab"
)

// leaseTTL is the lease of the lab's settings, and their claims last as long.
const leaseTTL = 2 * time.Second

// replica is one place in a deployment: a process, its path to the database, and
// its wall clock. When the process ends, another one takes its place.
type replica struct {
	world   *lab.World
	program string
	name    string
	proxy   *lab.Proxy
	clock   *lab.WallClock

	mu       sync.Mutex // guards all below
	process  *lab.Process
	all      []*lab.Process
	due      time.Time // when the place is filled again, once it is empty
	restarts int       // processes that ended without having been told to
	told     bool
}

// cast is the deployment.
type cast struct {
	replicas []*replica
	byRole   map[string][]*replica
}

// newCast starts workers, dispatchers and reconcilers.
func newCast(w *lab.World, db *database, counts map[string]int) *cast {
	c := &cast{byRole: map[string][]*replica{}}
	for _, program := range []string{"worker", "dispatcher", "reconciler"} {
		for i := range counts[program] {
			r := &replica{
				world: w, program: program, name: fmt.Sprintf("%s-%d", program, i+1),
				proxy: lab.NewProxy(w.T, db.DSN("superuser")), clock: lab.NewWallClock(w),
			}
			r.start(db)
			c.replicas = append(c.replicas, r)
			c.byRole[program] = append(c.byRole[program], r)
		}
	}
	return c
}

// pick draws one replica of a role; of any for "".
func (c *cast) pick(role string, whom uint32) *replica {
	list := c.replicas
	if role != "" {
		list = c.byRole[role]
	}
	return list[int(whom)%len(list)]
}

func (r *replica) start(db *database) {
	program := r.program
	if program == "worker" {
		program = "errands"
	}
	p := r.world.Start(program, lab.Named(r.name), lab.Through(r.proxy.Through(db.DSN(r.program))), lab.By(r.clock),
		lab.Set("log.level", "info"), lab.Set("database.connect_timeout", "2s"))
	// It may give up while the database is away, as in a cluster, where it is
	// started again.
	p.MayEnd()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process, r.told = p, false
	r.all = append(r.all, p)
}

func (r *replica) current() *lab.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// end tells the process to end and leaves the place empty for a while.
func (r *replica) end(how func(*lab.Process), empty time.Duration) {
	r.mu.Lock()
	p := r.process
	r.told, r.due = true, time.Now().Add(empty)
	r.mu.Unlock()
	how(p)
}

// freeze stops the process, and returns what lets this one go on.
func (r *replica) freeze() (thaw func()) {
	p := r.current()
	p.Freeze()
	return p.Thaw
}

// refill starts another process if the place has been empty for long enough.
func (r *replica) refill(db *database) {
	r.mu.Lock()
	empty := r.process.Gone() && !time.Now().Before(r.due)
	if empty && !r.told {
		r.restarts++
	}
	r.mu.Unlock()
	if empty {
		r.start(db)
	}
}

// supervise keeps the places filled until stop is closed. By then every place is
// filled.
func (c *cast) supervise(db *database, stop <-chan struct{}) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, r := range c.replicas {
			r.refill(db)
		}
		select {
		case <-tick.C:
		case <-stop:
			for _, r := range c.replicas {
				r.mu.Lock()
				r.due = time.Time{}
				r.mu.Unlock()
				r.refill(db)
			}
			return
		}
	}
}

// processes are all that ever were.
func (c *cast) processes() []*lab.Process {
	var out []*lab.Process
	for _, r := range c.replicas {
		r.mu.Lock()
		out = append(out, r.all...)
		r.mu.Unlock()
	}
	return out
}

// count is how often a log record was written that holds all the words.
func (c *cast) count(words ...string) int {
	n := 0
	for _, p := range c.processes() {
		n += p.Count(words...)
	}
	return n
}

// ended counts the processes that ended without having been told to.
func (c *cast) ended() int {
	n := 0
	for _, r := range c.replicas {
		r.mu.Lock()
		n += r.restarts
		r.mu.Unlock()
	}
	return n
}

// draw is a source of numbers that belongs to one part of the program.
func draw(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part<<32)) }
