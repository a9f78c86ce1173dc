package plan_test

import (
	"fmt"

	"github.com/leasehold/leasehold/pkg/workflow/plan"
)

func ExampleValidate() {
	err := plan.Validate([]byte(`{
		"order": 41,
		"steps": [
			{"id": "charge", "tool": "payments.charge", "request": {"order": {"$ref": "input#/order"}}},
			{"id": "ship", "tool": "shop.ship", "request": {"payment": {"$ref": "steps.chrage#/id"}}}
		]}`))
	fmt.Println(err)
	// Output: plan: steps[1].needs: invalid argument: there is no step "chrage"
}
