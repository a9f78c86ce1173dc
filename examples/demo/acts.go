package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// play plays the acts in turn and says what was done to whom.
func (s *stage) play(ctx context.Context) (incident, error) {
	var in incident
	for _, act := range []func(context.Context, *incident) error{
		s.ordinaryDay, s.frozenWorker, s.killedDispatcher, s.cancelledRun, s.droppedAnswer,
	} {
		if err := act(ctx, &in); err != nil {
			return in, err
		}
	}
	return in, nil
}

// ordinaryDay: nothing goes wrong.
func (s *stage) ordinaryDay(ctx context.Context, _ *incident) error {
	const orders = 6
	s.timeline.act("1. An ordinary day",
		"Each order is a plan in JSON: charge the card, ship, notify. Nothing goes wrong yet.")
	began := time.Now()
	var tasks []task
	for i := 1; i <= orders; i++ {
		tasks = append(tasks, order(fmt.Sprintf("order-%d", i)))
	}
	if err := s.create(ctx, tasks...); err != nil {
		return err
	}
	s.timeline.now("operator", plain, "submits %d orders with `leasehold task create -f`", orders)
	v, err := s.watcher.await(ctx, 30*time.Second, "the ordinary orders are done", func(v *view) bool {
		for _, t := range tasks {
			if v.runOf(t.ID).Status != "succeeded" {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	s.timeline.now("ledger", good, "%d runs succeeded with %d effects, in %.1fs",
		len(v.runs), len(v.operations), time.Since(began).Seconds())
	return nil
}

// frozenWorker: a worker that holds a lease stops for longer than the lease
// lives, and comes back believing that nothing happened.
func (s *stage) frozenWorker(ctx context.Context, in *incident) error {
	s.timeline.act("2. A worker freezes, and comes back",
		"A long GC pause, a suspended VM: the worker is not dead, it is late. When it wakes it",
		"still believes it owns the run. No lock can stop it; the database has to refuse it.")
	for _, id := range []string{"order-frozen", "order-frozen-again", "order-frozen-thrice"} {
		refused, err := s.freeze(ctx, in, id)
		if refused || err != nil {
			return err
		}
		s.timeline.now("demo", plain, "the worker noticed by itself that its lease had run out, and stopped; once more")
	}
	return nil // what is missing is for the judge to say
}

// freeze freezes the worker of one order. On a machine so busy that the woken
// worker gets no answer in time it gives up by itself, which is safe too, but
// shows nothing: then refused is false.
func (s *stage) freeze(ctx context.Context, in *incident, id string) (refused bool, err error) {
	s.watcher.watch(id)
	// Slow enough that the worker is caught between two steps.
	for _, endpoint := range []string{"charges", "shipments"} {
		err := s.payments.arm(ctx, fault{Endpoint: endpoint, Fault: "delay", Where: map[string]string{"order": id}, Millis: 1200})
		if err != nil {
			return false, err
		}
	}
	if err := s.create(ctx, order(id)); err != nil {
		return false, err
	}
	v, err := s.watcher.await(ctx, 15*time.Second, "the charge of "+id+" is under way", func(v *view) bool {
		return len(v.seen(arrival, v.operation(v.runOf(id).ID, "charge").ID)) > 0
	})
	if err != nil {
		return false, err
	}
	held := v.term(v.runOf(id).ID)
	worker := s.workers[held.Worker]
	if worker == nil {
		return false, fmt.Errorf("the lease of %s is held by %q, which is no worker of ours", id, held.Worker)
	}
	in.frozen = append(in.frozen, held)
	if err := worker.signal(syscall.SIGSTOP); err != nil {
		return false, err
	}
	s.timeline.now("you", hand, "SIGSTOP %s, which holds the lease (epoch %d)", worker.name, held.Epoch)
	_, err = s.watcher.await(ctx, 20*time.Second, "another worker takes "+id+" over", func(v *view) bool {
		return v.term(held.Run).Epoch > held.Epoch
	})
	if err != nil {
		return false, err
	}
	if err := worker.signal(syscall.SIGCONT); err != nil {
		return false, err
	}
	s.timeline.now("you", hand, "SIGCONT %s, which knows nothing of this and goes on as epoch %d", worker.name, held.Epoch)
	if _, err = s.watcher.await(ctx, 20*time.Second, id+" is done", func(v *view) bool { return v.finished(id) }); err != nil {
		return false, err
	}
	_, err = s.watcher.await(ctx, 5*time.Second, "the database refuses "+worker.name, func(v *view) bool {
		return slices.ContainsFunc(v.refusals, func(r refusal) bool { return r.of(held) })
	})
	return err == nil, context.Cause(ctx)
}

// killedDispatcher: the service has taken the money, and the process that
// would have stored that is gone.
func (s *stage) killedDispatcher(ctx context.Context, _ *incident) error {
	const id = "order-crashed"
	s.timeline.act("3. A dispatcher is killed between the charge and its record",
		"The card is charged, and whoever asked for it died before writing that down.",
		"Retrying blindly charges twice; forgetting it gives the goods away.")
	s.watcher.watch(id)
	if err := s.payments.arm(ctx, fault{Endpoint: "charges", Fault: "hold_answer", Where: map[string]string{"order": id}}); err != nil {
		return err
	}
	if err := s.create(ctx, order(id)); err != nil {
		return err
	}
	var charged []entry
	_, err := s.watcher.await(ctx, 15*time.Second, "the charge of "+id+" is committed", func(v *view) bool {
		charged = v.seen(effect, v.operation(v.runOf(id).ID, "charge").ID)
		return len(charged) > 0
	})
	if err != nil {
		return err
	}
	victim := s.dispatchers[charged[0].Client]
	if victim == nil {
		return fmt.Errorf("the charge of %s was sent by %q, which is no dispatcher of ours", id, charged[0].Client)
	}
	if err := s.fleet.kill(victim); err != nil {
		return err
	}
	s.timeline.now("you", hand, "SIGKILL %s: the money is taken, the answer is lost", victim.name)
	_, err = s.watcher.await(ctx, 30*time.Second, "the order whose dispatcher was killed is done", func(v *view) bool {
		return v.finished(id)
	})
	return err
}

// cancelledRun: some of it is under way, and some is not.
func (s *stage) cancelledRun(ctx context.Context, in *incident) error {
	const id, people = "payouts-friday", 8
	s.timeline.act("4. A run is cancelled half-way",
		"What has not been sent never will be. What is under way is not declared undone:",
		"it converges to what really happened.")
	s.watcher.watch(id)
	err := s.payments.arm(ctx, fault{Endpoint: "charges", Fault: "delay", Where: map[string]string{"order": id}, Millis: 2000, Times: people})
	if err != nil {
		return err
	}
	if err := s.create(ctx, payouts(id, people)); err != nil {
		return err
	}
	v, err := s.watcher.await(ctx, 15*time.Second, "some payouts are under way and some are not", func(v *view) bool {
		run := v.runOf(id).ID
		sent, claimed, waiting := 0, 0, 0
		for _, o := range v.operationsOf(run) {
			switch o.Status {
			case "dispatching":
				claimed++
				sent += len(v.seen(arrival, o.ID))
			case "prepared":
				waiting++
			}
		}
		// A claim before the cancel may be sent after it: wait until all that
		// is claimed has left, and the slow answers keep the slots taken.
		return sent > 0 && sent == claimed && waiting > 0
	})
	if err != nil {
		return err
	}
	in.cancelled = v.runOf(id).ID
	s.timeline.now("you", hand, "leasehold run cancel %s", in.cancelled)
	if err := s.leasehold(ctx, nil, "run", "cancel", in.cancelled, "--reason", "wrong list"); err != nil {
		return err
	}
	in.cancelledAt = time.Now()
	s.timeline.now("operator", plain, "the cancel is acknowledged: from now on nothing of this run may leave")
	_, err = s.watcher.await(ctx, 30*time.Second, "every payout of the cancelled run is a fact", func(v *view) bool {
		return v.runOf(id).Status == "cancelled" && allFinal(v.operationsOf(in.cancelled))
	})
	return err
}

// droppedAnswer: the remote has no key and no query, so nobody can know.
func (s *stage) droppedAnswer(ctx context.Context, _ *incident) error {
	const id = "order-unheard"
	s.timeline.act("5. An answer is lost that nobody can ask for again",
		"The notification service has no idempotency key and no query. Did it send the mail?",
		"Sending again may repeat it, forgetting may lose it: this one is for a person.")
	s.watcher.watch(id)
	err := s.payments.arm(ctx, fault{Endpoint: "notifications", Fault: "drop_answer", Where: map[string]string{"order": id}})
	if err != nil {
		return err
	}
	if err := s.create(ctx, order(id)); err != nil {
		return err
	}
	v, err := s.watcher.await(ctx, 30*time.Second, "a person is asked to look at the notification", func(v *view) bool {
		o := v.operation(v.runOf(id).ID, "notify")
		return o.Status == "unknown" && o.Attention != ""
	})
	if err != nil {
		return err
	}
	o := v.operation(v.runOf(id).ID, "notify")
	s.timeline.now("reconciler", hand, "notify: stays unknown; it was sent once and never will be again by itself")
	desk, err := s.desk(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(desk, o.ID) {
		return fmt.Errorf("`leasehold operation list --needs-person` shows %q, and not %s", desk, o.ID)
	}
	s.timeline.now("you", plain, "leasehold operation list --needs-person: notify of %s: %s", id, o.Attention)
	return nil
}

// settle waits until nothing moves any more.
func (s *stage) settle(ctx context.Context) (*view, error) {
	return s.watcher.await(ctx, 30*time.Second, "every operation is a fact or on a person's desk", func(v *view) bool {
		for _, o := range v.operations {
			if !final(o) && (o.Status != "unknown" || o.Attention == "") {
				return false
			}
		}
		return true
	})
}

func allFinal(operations []operation) bool {
	for _, o := range operations {
		if !final(o) {
			return false
		}
	}
	return len(operations) > 0
}

func final(o operation) bool {
	return o.Status == "succeeded" || o.Status == "failed_final" || o.Status == "cancelled"
}
