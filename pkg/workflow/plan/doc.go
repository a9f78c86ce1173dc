// Package plan is a workflow without code: a run's input is the list of tool
// calls to make.
//
//	{
//	  "order": 41,
//	  "steps": [
//	    {"id": "charge", "tool": "payments.charge",
//	     "request": {"order": {"$ref": "input#/order"}, "amount": 1250}},
//	    {"id": "ship", "tool": "shop.ship", "needs": ["charge"],
//	     "request": {"payment": {"$ref": "steps.charge#/id"}}}
//	  ]
//	}
//
// A reference {"$ref": "input#/pointer"} or {"$ref": "steps.ID#/pointer"} is
// replaced by the value at that JSON Pointer, token by token, so that a 64-bit
// id or a long decimal arrives as it was. A reference to a step needs that
// step. Steps whose needs are met are registered together, in the order of the
// list. The run's result is {"steps": {ID: result}}.
//
// A step with "approval": true is not sent before a person has allowed it, and one
// with "effect_version": 2 asks on purpose for another effect than version 1.
//
// It promises that a plan is checked whole before anything of it runs, and
// that the first step which ends without its effect fails the run with a
// reason that names it, after the operations that were registered beside it
// have come to their end.
//
// It does not promise to undo: compensation is a run of its own.
package plan
