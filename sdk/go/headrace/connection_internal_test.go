package headrace

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/sdk/go/internal/vectors"
)

func TestWhetherToReconnectIsDecidedAsTheProtocolSays(t *testing.T) {
	var found struct {
		Cases []struct {
			Name      string     `json:"name"`
			Code      codes.Code `json:"code"`
			Text      string     `json:"text"`
			Domain    string     `json:"domain"`
			Reason    string     `json:"reason"`
			Details   string     `json:"details_hex"`
			Reconnect bool       `json:"reconnect"`
		} `json:"cases"`
	}
	vectors.Read(t, "errors.json", &found)
	for _, test := range found.Cases {
		t.Run(test.Name, func(t *testing.T) {
			ended := status.New(test.Code, test.Text)
			if test.Details != "" {
				details, err := hex.DecodeString(test.Details)
				if err != nil {
					t.Fatal(err)
				}
				parsed := &spb.Status{}
				if err := proto.Unmarshal(details, parsed); err != nil {
					t.Fatal(err)
				}
				ended = status.FromProto(parsed)
			}
			err := sessionError("here", ended.Err())
			if err.Code != test.Code && ended.Err() != nil {
				t.Errorf("the status is %v", err.Code)
			}
			if test.Domain == "headrace" && err.Reason != test.Reason {
				t.Errorf("the reason is %q", err.Reason)
			}
			if errors.Is(err, ErrUnavailable) != test.Reconnect {
				t.Errorf("%v: reconnects: %v", err, !test.Reconnect)
			}
		})
	}
}

func TestAddressesOfThisMachineAreKnown(t *testing.T) {
	var found struct {
		Addresses struct {
			Cases []struct {
				Address string `json:"address"`
				Here    bool   `json:"here"`
			} `json:"cases"`
		} `json:"addresses"`
	}
	vectors.Read(t, "addresses.json", &found)
	if len(found.Addresses.Cases) == 0 {
		t.Error("no cases")
	}
	for _, test := range found.Addresses.Cases {
		if leadsHere(test.Address) != test.Here {
			t.Errorf("%s is on this machine: %v", test.Address, !test.Here)
		}
	}
}

func TestNamesAreCheckedAsTheProtocolSays(t *testing.T) {
	type group struct {
		Cases []struct {
			Name  string `json:"name"`
			Valid bool   `json:"valid"`
		} `json:"cases"`
	}
	var found struct {
		Names   group `json:"names"`
		Streams group `json:"streams"`
	}
	vectors.Read(t, "names.json", &found)
	for _, test := range found.Names.Cases {
		if isName(test.Name) != test.Valid {
			t.Errorf("%q is valid: %v", test.Name, !test.Valid)
		}
	}
	for _, test := range found.Streams.Cases {
		source, partition, _ := strings.Cut(test.Name, "/")
		_, err := (&Source{Name: source}).streamName(partition)
		if valid := err == nil && isName(source); valid != test.Valid {
			t.Errorf("stream %q is valid: %v", test.Name, valid)
		}
	}
}
