package httptool_test

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/tools/httptool"
)

func TestEveryToolInTheDocsIsOneThatWorks(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for i, block := range strings.Split(string(raw), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var file struct {
			Tools []struct {
				Name, Kind string
				Slots      int
				Config     yaml.Node
			}
		}
		if err := yaml.Unmarshal([]byte(block), &file); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		for _, made := range file.Tools {
			if made.Kind != httptool.Kind {
				continue
			}
			section, err := yaml.Marshal(&made.Config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := httptool.Factory().Describe(decode(t, string(section))); err != nil {
				t.Errorf("tool %s: %v", made.Name, err)
			}
			seen++
		}
	}
	if seen < 2 {
		t.Errorf("found %d tools in the docs", seen)
	}
}
