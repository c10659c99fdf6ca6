package main

import (
	"strings"

	"rsc.io/qr"
)

// font has the letters of user codes, five rows each.
var font = map[rune]string{
	'B': "#### |#   #|#### |#   #|#### ", 'C': " ####|#    |#    |#    | ####", 'D': "#### |#   #|#   #|#   #|#### ",
	'F': "#####|#    |#### |#    |#    ", 'G': " ####|#    |#  ##|#   #| ####", 'H': "#   #|#   #|#####|#   #|#   #",
	'J': "  ###|    #|    #|#   #| ### ", 'K': "#   #|#  # |###  |#  # |#   #", 'L': "#    |#    |#    |#    |#####",
	'M': "#   #|## ##|# # #|#   #|#   #", 'N': "#   #|##  #|# # #|#  ##|#   #", 'P': "#### |#   #|#### |#    |#    ",
	'Q': " ### |#   #|# # #|#  # | ## #", 'R': "#### |#   #|#### |#  # |#   #", 'S': " ####|#    | ### |    #|#### ",
	'T': "#####|  #  |  #  |  #  |  #  ", 'V': "#   #|#   #|#   #| # # |  #  ", 'W': "#   #|#   #|# # #|## ##|#   #",
	'X': "#   #| # # |  #  | # # |#   #", 'Z': "#####|   # |  #  | #   |#####", '-': "   |   |###|   |   ",
}

// bigCode draws a user code in letters five rows high, or leaves it as it is if
// it has others than ours.
func bigCode(code string) string {
	var rows [5]strings.Builder
	for _, letter := range code {
		shape, ok := font[letter]
		if !ok {
			return "    " + printable(code) + "\n"
		}
		for i, row := range strings.Split(shape, "|") {
			rows[i].WriteString("  " + strings.ReplaceAll(row, "#", "\u2588"))
		}
	}
	var all strings.Builder
	for i := range rows {
		all.WriteString("  " + strings.TrimRight(rows[i].String(), " ") + "\n")
	}
	return all.String()
}

// qrBorder is the empty border that a QR code needs, in modules.
const qrBorder = 2

// qrCode draws two modules in each character. On a terminal it sets black on
// white, whatever the colours are; elsewhere light modules are drawn.
func qrCode(text string, terminal bool) string {
	code, err := qr.Encode(text, qr.L)
	if err != nil { // too long; the link stands above
		return ""
	}
	dark := func(x, y int) bool { return code.Black(x, y) == terminal }
	var all strings.Builder
	for y := -qrBorder; y < code.Size+qrBorder; y += 2 {
		all.WriteString("  ")
		if terminal {
			all.WriteString("\x1b[30;107m")
		}
		for x := -qrBorder; x < code.Size+qrBorder; x++ {
			all.WriteString(halves(dark(x, y), dark(x, y+1)))
		}
		if terminal {
			all.WriteString("\x1b[0m")
		}
		all.WriteString("\n")
	}
	return all.String()
}

func halves(upper, lower bool) string {
	switch {
	case upper && lower:
		return "\u2588"
	case upper:
		return "\u2580"
	case lower:
		return "\u2584"
	}
	return " "
}
