package sending

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

func TestAnOfferNeverExceedsWhatIsFree(t *testing.T) {
	t.Parallel()
	reg := registry(t, map[string]int{"a": 1, "b": 3, "c": 8})
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, 14).Draw(t, "total")
		s := NewSlots(reg, total)
		all := 12
		if total > 0 && total < all {
			all = total
		}
		busy := map[string]int{}
		size := map[string]int{"a": 1, "b": 3, "c": 8}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			most := rapid.IntRange(1, 6).Draw(t, "most")
			offer := s.Offer(most, nil)
			sum := 0
			got := map[string]int{}
			for tool, n := range offer {
				sum += n
				if n <= 0 || n > size[tool]-busy[tool] {
					t.Fatalf("offer %v with %v busy", offer, busy)
				}
				got[tool] = rapid.IntRange(0, n).Draw(t, "got")
			}
			inFlight := 0
			for _, n := range busy {
				inFlight += n
			}
			if sum > most || sum > all-inFlight {
				t.Fatalf("offer %v of at most %d with %d of %d in flight", offer, most, inFlight, all)
			}
			for tool, n := range got {
				for range n {
					s.Take(tool)
				}
				busy[tool] += n
			}
			s.Took(offer, got)
			for tool, n := range maps.Clone(busy) {
				for range rapid.IntRange(0, n).Draw(t, "back") {
					s.Give(tool)
					busy[tool]--
				}
			}
			if rapid.Bool().Draw(t, "refill") {
				s.Refill()
			}
		}
	})
}

func TestAToolThatGaveLessThanAskedIsNotAskedAgainUntilRefilled(t *testing.T) {
	t.Parallel()
	s := NewSlots(registry(t, map[string]int{"idle": 2, "busy": 2}), 2)
	offer := s.Offer(10, nil)
	if offer["idle"] != 1 || offer["busy"] != 1 {
		t.Fatalf("two slots over all for two tools: %v", offer)
	}
	s.Take("busy")
	s.Took(offer, map[string]int{"busy": 1})
	for range 4 { // whoever's turn it is
		if offer = s.Offer(10, nil); offer["idle"] != 0 || offer["busy"] != 1 {
			t.Errorf("the last slot goes to the tool that has work, not %v", offer)
		}
	}
	s.Refill()
	s.Give("busy")
	if offer = s.Offer(10, nil); offer["idle"] != 1 {
		t.Errorf("after a refill the idle tool is asked again: %v", offer)
	}
}

func TestALimitLowersOneToolsShareOnly(t *testing.T) {
	t.Parallel()
	s := NewSlots(registry(t, map[string]int{"sick": 4, "well": 4}), 0)
	s.Take("sick")
	one := func(tool string) int {
		if tool == "sick" {
			return 1
		}
		return 4
	}
	if offer := s.Offer(10, one); offer["sick"] != 0 || offer["well"] != 4 {
		t.Errorf("one call of the sick tool is in flight: %v", offer)
	}
}
