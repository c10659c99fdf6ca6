package sim

import "strings"

// vocabulary holds the words of the answers. None is longer than a token of
// the tokenizer; some are multi-byte so that a split character shows, and none
// needs escaping in JSON. Order is part of the deterministic output.
var vocabulary = strings.Fields(`
the of and to in is that it for as with was on are by this be at from or an
which one all can has more when there their if will each about how up out them
then she many some so these would other into time two like see make way could
people than first water been call who its now find long down day did get come
made may part over new sound take only little work know place year live me
back give most very after thing our just name good sentence man think say
great where help through much before line right too mean old any same tell boy
follow came want show also around form three small set put end does another
well large must big even such because turn here why ask went men read need
land home us move try kind hand picture again change off play spell air away
animal house point page letter mother answer found study still learn should
world high every near add food between own below country plant last school
father keep tree never start city earth eye light thought head under story saw
left few while along might close seem next hard open example begin life always
those both paper together got group often run naïve café Größe straße
日本 世界 мир 🚀 ✓ — … Ω π coöp señor façade 数据 한국
`)

// A sentence has minSentence to maxSentence-1 words.
const (
	minSentence = 5
	maxSentence = 15
)

// prose appends n pieces of running text, one token each.
func prose(pieces []piece, rng *random, k kind, n int) []piece {
	left, gap := minSentence, ""
	for end := len(pieces) + n; len(pieces) < end; {
		var text string
		switch {
		case left > 0:
			text, gap = gap+vocabulary[rng.below(len(vocabulary))], " "
			left--
		case left == 0:
			text = "."
			if left = minSentence + rng.below(maxSentence-minSentence); rng.below(4) == 0 {
				left = -left
			}
		default:
			text, gap, left = "\n", "", -left
		}
		pieces = append(pieces, newPiece(k, text))
	}
	return pieces
}
