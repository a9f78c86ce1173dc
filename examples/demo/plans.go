package main

import "fmt"

// task is what `leasehold task create -f` reads: work in three lines of JSON,
// run by the stock worker with no Go written.
type task struct {
	Workflow string `json:"workflow"`
	ID       string `json:"task_id"`
	Input    input  `json:"input"`
}

type input struct {
	Order string `json:"order"`
	Steps []step `json:"steps"`
}

type step struct {
	ID      string         `json:"id"`
	Tool    string         `json:"tool"`
	Request map[string]any `json:"request"`
	Needs   []string       `json:"needs,omitempty"`
}

type ref struct {
	Ref string `json:"$ref"`
}

// order charges a card, ships what was paid for, and tells the customer.
func order(id string) task {
	return task{Workflow: "plan", ID: id, Input: input{Order: id, Steps: []step{
		{ID: "charge", Tool: "charge", Request: map[string]any{
			"order": ref{"input#/order"}, "amount": 4200, "currency": "eur",
		}},
		{ID: "ship", Tool: "ship", Request: map[string]any{
			"order": ref{"input#/order"}, "charge": ref{"steps.charge#/id"},
		}},
		{ID: "notify", Tool: "notify", Request: map[string]any{
			"order": ref{"input#/order"}, "parcel": ref{"steps.ship#/id"},
		}},
	}}}
}

// payouts pays many people at once, with a tool that each dispatcher may call
// once at a time.
func payouts(id string, people int) task {
	t := task{Workflow: "plan", ID: id, Input: input{Order: id}}
	for i := 1; i <= people; i++ {
		t.Input.Steps = append(t.Input.Steps, step{
			ID: fmt.Sprintf("payout-%d", i), Tool: "payout",
			Request: map[string]any{"order": ref{"input#/order"}, "amount": 100 * i, "currency": "eur"},
		})
	}
	return t
}
