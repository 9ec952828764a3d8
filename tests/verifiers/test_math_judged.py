"""Golds with right and wrong answers, and with whole responses, that were judged by hand.

The judgement of each was written down before the rules were asked. Most wrong answers are a small
step away from the gold: another sign, order, bracket, unit, place of the point, or a doubt.
"""

import pytest

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.verify import judge_in_time

SETTINGS = MathSettings()
Table = tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
ANSWERS: Table = (
    (
        "-17",
        (
            "-17",
            "\u221217",
            "- 17",
            "-17.0",
            r"-\!17",
            "\\text{\u221217}",
        ),
        (
            "17",
            "--17",
            "-17.5",
            r"\pm 17",
            "|-17|",
            "-(-17)",
            "-1.7",
        ),
    ),
    (
        r"-\frac{7}{12}",
        (
            "\u22127/12",
            r"\frac{-7}{12}",
            r"\frac{7}{-12}",
            r"-\dfrac7{12}",
            r"-0.58\overline{3}",
        ),
        (
            r"\frac{7}{12}",
            r"\frac{-7}{-12}",
            r"-\frac{12}{7}",
            "-0.58",
            "7-12",
        ),
    ),
    (
        "40320",
        (
            "8!",
            "40,320",
            r"40\,320",
            "40 320",
            r"4.032\times10^4",
        ),
        (
            "40,32",
            "4.032",
            "40.320",
            "8",
            "8!!",
            "40320!",
            "403,20",
            "40, 320",
        ),
    ),
    (
        "0.00042",
        (
            r"4.2\times 10^{-4}",
            "4.2e-4",
            "0.00042",
            r"42\cdot10^{-5}",
        ),
        (
            r"4.2\times10^{-3}",
            r"4.2\times 10^{4}",
            "0.0004",
            "0.00043",
            "4.2 - 4",
            "-0.00042",
        ),
    ),
    (
        "2^{10}-1",
        (
            "1023",
            "1,023",
            "(2^5-1)(2^5+1)",
            r"3\cdot 11\cdot 31",
        ),
        (
            "2^{9}",
            "2^{10-1}",
            "1024",
            "2^{10}+1",
            "10^2-1",
        ),
    ),
    (
        r"\sqrt{48}",
        (
            r"4\sqrt3",
            r"4\sqrt{3}",
            r"2\sqrt{12}",
            r"\sqrt{16\cdot3}",
            r"\frac{12}{\sqrt3}",
            "48^{1/2}",
        ),
        (
            r"3\sqrt{4}",
            r"\sqrt{4}\cdot 3",
            r"16\sqrt 3",
            "48",
            r"-4\sqrt3",
            r"\pm 4\sqrt3",
            r"\sqrt[3]{48}",
        ),
    ),
    (
        r"\frac{3-\sqrt5}{2}",
        (
            r"1.5-\frac{\sqrt5}{2}",
            r"\frac{2}{3+\sqrt5}",
            r"\left(\frac{\sqrt5-1}{2}\right)^2",
        ),
        (
            r"\frac{3+\sqrt5}{2}",
            r"\frac{3\pm\sqrt5}{2}",
            r"\frac{-3+\sqrt5}{2}",
            r"3-\frac{\sqrt5}{2}",
            r"\frac{3-\sqrt{5}}{4}",
        ),
    ),
    (
        r"2\frac{3}{8}",
        (
            r"\frac{19}{8}",
            "19/8",
            "2.375",
            "2 3/8",
            r"2+\frac38",
        ),
        (
            r"\frac{6}{8}",
            r"2\cdot\frac38",
            "23/8",
            r"2, \frac38",
            r"\frac{2}{3}\cdot 8",
            r"-2\frac38",
        ),
    ),
    (
        r"\frac{5}{11}",
        (
            r"0.\overline{45}",
            "0.454545...",
            r"\frac{10}{22}",
            "5:11",
        ),
        (
            "0.45",
            r"0.\overline{54}",
            r"\frac{11}{5}",
            "5, 11",
            "5.11",
            r"0.4\overline{5}",
        ),
    ),
    (
        "2, 7, 11",
        (
            "11, 7, 2",
            r"\{2,7,11\}",
            "2, 7 and 11",
            "2; 7; 11",
            "x = 2, x = 7, x = 11",
            r"7, 2, \text{ and } 11",
        ),
        (
            "2, 7",
            "2, 7, 12",
            "2, 7, 11, 13",
            "2711",
            "2, 7, -11",
            "27, 11",
            "2 + 7 + 11",
            "(11,7)",
        ),
    ),
    (
        r"\{a, b\}",
        (
            r"\{b, a\}",
            "a, b",
        ),
        (
            r"\{a\}",
            r"\{a, b, c\}",
            "ab",
            "a+b",
            r"\{A, b\}",
        ),
    ),
    (
        r"\emptyset",
        (
            r"\{\}",
            r"\text{no solution}",
            r"\varnothing",
            r"\text{There are no solutions}",
        ),
        (
            "0",
            r"\{0\}",
            r"\text{one solution}",
            r"\{\emptyset\}",
        ),
    ),
    (
        "-3, 3",
        (
            r"\pm 3",
            r"x = \pm 3",
            r"\pm\sqrt9",
            "3, -3",
            r"3 \text{ and } -3",
            r"x=-3 \text{ or } x=3",
        ),
        (
            "3",
            "-3",
            r"\pm 9",
            r"(-3,3) \cup \{4\}",
            "-3 < x < 3",
            "3, 3",
        ),
    ),
    (
        "1, 1, 2",
        ("1, 2, 1",),
        (
            "1, 2",
            "1, 2, 2",
            "1, 1, 1, 2",
            "1, 1",
        ),
    ),
    (
        r"\{1, 2, 3, 4\}",
        (
            "1,2,3,4",
            r"\{4,3,2,1\}",
            r"\{1, 2, \ldots, 4\}",
        ),
        (
            r"\{1,2,3\}",
            "[1, 4]",
            r"1 \le x \le 4",
            "4",
            r"\{1, 2, 3, 4, 5\}",
            "1234",
        ),
    ),
    (
        "(-2, 5]",
        (
            r"-2 < x \le 5",
            r"x \in (-2, 5]",
            r"5 \ge x > -2",
            "]-2, 5]",
        ),
        (
            "[-2, 5]",
            "(-2, 5)",
            "[-2,5)",
            "(-2, 6]",
            "(2, 5]",
            r"-2 \le x < 5",
            "(5, -2]",
            "-2, 5",
        ),
    ),
    (
        r"(-\infty, 3) \cup (4, \infty)",
        (
            r"x < 3 \text{ or } x > 4",
            r"(4,\infty)\cup(-\infty,3)",
            r"(-\infty, 3) \cup (4, +\infty)",
        ),
        (
            "(3, 4)",
            r"(-\infty, 3] \cup [4, \infty)",
            "x<3",
            r"(-\infty,3)\cap(4,\infty)",
            "3 < x < 4",
            r"(-\infty, 4)\cup(3,\infty)",
        ),
    ),
    (
        r"[0, \infty)",
        (
            r"x \ge 0",
            r"[0, +\infty)",
            r"0 \le x",
            r"0 \le x < \infty",
        ),
        (
            r"(0, \infty)",
            "x > 0",
            r"[0, \infty]",
            r"(-\infty, 0]",
            "0",
        ),
    ),
    (
        "(3, -4)",
        (
            "(3,-4)",
            r"\left(3, -4\right)",
            "x=3, y=-4",
            "(x,y)=(3,-4)",
            "(3.0, -4)",
            r"\langle 3, -4\rangle",
        ),
        (
            "(-4, 3)",
            "(3, 4)",
            "(-3, 4)",
            "3",
            r"\{3\}",
            "(3, -4, 0)",
            "x=-4, y=3",
        ),
    ),
    (
        "(1, 2, 2, 4)",
        (
            "(1,2,2,4)",
            "1, 2, 2, 4",
        ),
        (
            "(1,2,4)",
            "(4,2,2,1)",
            "(1,2,2,4,4)",
            "1224",
        ),
    ),
    (
        r"(0, \frac{1}{2}, -1)",
        (
            "(0, 0.5, -1)",
            r"\begin{pmatrix}0\\1/2\\-1\end{pmatrix}",
        ),
        (
            r"(0, -1, \frac12)",
            "(0, 2, -1)",
            r"(0,\frac12,1)",
        ),
    ),
    (
        "4:9",
        (
            "4 : 9",
            "8:18",
            r"\frac49",
            r"4 \text{ to } 9",
        ),
        (
            "9:4",
            "4:9:1",
            "4, 9",
            "2:3",
            "49",
            "4.9",
        ),
    ),
    (
        "3:5:7",
        (
            "6:10:14",
            "3 : 5 : 7",
        ),
        (
            "7:5:3",
            "3:5",
            "3, 5",
            "3:7:5",
        ),
    ),
    (
        "7{:}45",
        (
            "7:45",
            r"7:45 \text{ a.m.}",
            r"7:45 \text{ PM}",
        ),
        (
            "7.45",
            "45:7",
            "8:45",
            "7:54",
            "745",
        ),
    ),
    (
        r"2 \text{ hours } 40 \text{ minutes}",
        (
            r"160 \text{ minutes}",
            "2h40",
            r"2 \text{ h } 40 \text{ min}",
            r"\frac{8}{3} \text{ hours}",
        ),
        (
            r"2.4 \text{ hours}",
            r"2 \text{ hours}",
            r"40 \text{ minutes}",
            r"240 \text{ minutes}",
            r"2.67 \text{ minutes}",
            r"160 \text{ hours}",
        ),
    ),
    (
        r"36 \text{ km/h}",
        (
            "36 km/h",
            r"10 \text{ m/s}",
            "36",
            r"36 \text{ kilometers per hour}",
        ),
        (
            "10",
            r"36 \text{ m/s}",
            r"36 \text{ km}",
            r"3.6 \text{ km/h}",
            r"36 \text{ mph}",
        ),
    ),
    (
        r"250 \text{ g}",
        (
            r"0.25 \text{ kg}",
            r"250 \text{ grams}",
            "250g",
            r"250000 \text{ mg}",
        ),
        (
            r"25 \text{ g}",
            r"250 \text{ kg}",
            "0.25",
            r"2.5 \text{ kg}",
            r"250 \text{ mg}",
            r"250 \text{ m}",
        ),
    ),
    (
        r"\$18.50",
        (
            "18.5",
            r"18.50 \text{ dollars}",
            r"\$18.5",
            r"1850 \text{ cents}",
            r"18\frac12",
        ),
        (
            "1850",
            "18.05",
            "185",
            r"\$18",
            r"18.50 \text{ cents}",
            "\\text{\u20ac}18.50",
        ),
    ),
    (
        r"12\pi \text{ cm}^2",
        (
            r"12\pi",
            r"12\pi \text{ square centimeters}",
            r"\pi\cdot 12 \text{ cm}^2",
        ),
        (
            r"12\pi \text{ cm}^3",
            r"12\pi \text{ cm}",
            r"12 \text{ cm}^2",
            r"24\pi \text{ cm}^2",
            r"12\pi \text{ m}^2",
        ),
    ),
    (
        r"135^\circ",
        (
            "135",
            r"135 \text{ degrees}",
            r"\frac{3\pi}{4}",
        ),
        (
            r"45^\circ",
            r"\frac{\pi}{4}",
            "135'",
            r"-135^\circ",
            r"135 \text{ radians}",
        ),
    ),
    (
        r"12.5\%",
        (
            "12.5",
            "0.125",
            r"\frac18",
            r"12.5 \text{ percent}",
            r"12\frac12\%",
        ),
        (
            r"125\%",
            "1.25",
            r"12\%",
            r"0.125\%",
            r"\frac{1}{8}\%",
            "12,5,0",
        ),
    ),
    (
        r"y = -\frac{2}{3}x + 4",
        (
            r"y = 4 - \frac{2x}{3}",
            "2x + 3y = 12",
            "3y = -2x+12",
            "y=-2x/3+4",
        ),
        (
            r"y = \frac23 x + 4",
            r"y = -\frac32 x + 4",
            "2x+3y=4",
            r"x = -\frac23 y + 4",
            r"y = -\frac{2}{3x} + 4",
            r"y = -\frac23(x+4)",
        ),
    ),
    (
        "(x-2)^2 + (y+1)^2 = 9",
        (
            "x^2+y^2-4x+2y-4=0",
            "9=(y+1)^2+(x-2)^2",
            "(2-x)^2+(y+1)^2=3^2",
        ),
        (
            "(x+2)^2+(y-1)^2=9",
            "(x-2)^2+(y+1)^2=3",
            "(x-2)^2-(y+1)^2=9",
            "(x-2)^2+(y+1)^2",
            "9",
        ),
    ),
    (
        "6x^2-5x-6",
        (
            "(3x+2)(2x-3)",
            "-6-5x+6x^2",
            r"6(x-\frac32)(x+\frac23)",
        ),
        (
            "(3x-2)(2x+3)",
            "6x^2+5x-6",
            "6x^2-5x-6=0",
            "6x^2-5x",
            "6y^2-5y-6",
        ),
    ),
    (
        r"\frac{x}{x^2-1}",
        (
            r"\frac{x}{(x-1)(x+1)}",
            r"\frac12\left(\frac{1}{x-1}+\frac{1}{x+1}\right)",
            "x/(x^2-1)",
        ),
        (
            r"\frac{x}{1-x^2}",
            "x/x^2-1",
            r"\frac{1}{x-1}",
            r"\frac{x}{x^2+1}",
            r"\frac{x^2-1}{x}",
        ),
    ),
    (
        r"e^{-2x}\sin x",
        (
            r"\frac{\sin x}{e^{2x}}",
            r"\sin(x)e^{-2x}",
        ),
        (
            r"e^{-2x}\cos x",
            r"e^{2x}\sin x",
            r"e^{-2}x\sin x",
            r"e^{-2x}+\sin x",
            r"e^{-2x\sin x}",
        ),
    ),
    (
        r"\log_3 18 - \log_3 2",
        (
            "2",
            r"\log_3 9",
            r"\frac{\ln 9}{\ln 3}",
        ),
        (
            r"\log_3 16",
            r"\log_3 36",
            "3",
            r"\log_9 3",
        ),
    ),
    (
        "n = 4k+1",
        ("n=1+4k",),
        (
            "n = 4k",
            "n=4k-1",
            "4k+2",
        ),
    ),
    (
        r"x \ne 5",
        (
            r"5 \neq x",
            r"x \neq 5",
        ),
        (
            "x = 5",
            "5",
            r"x \ne -5",
        ),
    ),
    (
        "|x-1|",
        (
            "|1-x|",
            r"\sqrt{(x-1)^2}",
        ),
        (
            "x-1",
            "1-x",
            "|x+1|",
            "|x|-1",
        ),
    ),
    (
        r"\text{Wednesday}",
        (
            "Wednesday",
            "wednesday",
            r"\textbf{Wednesday}",
            "On Wednesday",
            r"\text{Wednesday.}",
        ),
        (
            "Thursday",
            "Wednesday or Thursday",
            "not Wednesday",
            "Wednesdays and Fridays",
            "Tuesday, not Wednesday",
            "the day before Wednesday",
        ),
    ),
    (
        r"\text{isosceles}",
        (
            "isosceles",
            "Isosceles",
        ),
        (
            "scalene",
            "not isosceles",
            "equilateral",
            "isosceles or scalene",
        ),
    ),
    (
        r"\text{No}",
        (
            "no",
            "No.",
            r"\text{No, it is not.}",
            "False",
        ),
        (
            "yes",
            "No, it is.",
            "none",
            "maybe",
            "Yes, no doubt",
        ),
    ),
    (
        r"\text{ellipse}",
        (
            "an ellipse",
            "Ellipse",
            r"\text{an ellipse}",
        ),
        (
            "ellipsoid",
            "hyperbola",
            "circle or ellipse",
            "half an ellipse",
        ),
    ),
    (
        r"\text{Ben}",
        (
            "Ben",
            r"\text{Ben}",
        ),
        (
            "Benjamin",
            "Ben and Tom",
            "not Ben",
            "Ken",
            "Anyone but Ben",
        ),
    ),
    (
        "(C)",
        (
            "C",
            r"\text{(C)}",
            "C.",
            r"\textbf{(C)}",
            r"\text{C}",
        ),
        (
            "(D)",
            "B, C",
            "c^2",
            "not C",
            "(C) or (D)",
            "2C",
            "AC",
        ),
    ),
    (
        "AC",
        (
            "A, C",
            "A and C",
            r"\text{AC}",
            "(A), (C)",
        ),
        (
            "A",
            "C",
            "ABC",
            "A or B",
            "A, D",
        ),
    ),
    (
        r"\text{(B)}\ 12",
        (
            "B",
            "12",
            "(B) 12",
            r"\text{B. } 12",
        ),
        (
            "(A) 12",
            "(B) 13",
            "13",
            "A",
            "12, 13",
        ),
    ),
    (
        r"\begin{pmatrix}1&-2\\0&3\end{pmatrix}",
        (
            r"\begin{bmatrix}1&-2\\0&3\end{bmatrix}",
            r"\left(\begin{array}{cc}1&-2\\0&3\end{array}\right)",
            r"\begin{pmatrix}1 & -2 \\ 0 & 6/2\end{pmatrix}",
        ),
        (
            r"\begin{pmatrix}1&0\\-2&3\end{pmatrix}",
            r"\begin{pmatrix}1&2\\0&3\end{pmatrix}",
            "3",
            r"\begin{vmatrix}1&-2\\0&3\end{vmatrix}",
            r"\begin{pmatrix}1&-2&0&3\end{pmatrix}",
        ),
    ),
    (
        "x = -1, y = 6",
        (
            "y = 6, x = -1",
            "(-1, 6)",
            "-1, 6",
            r"x=-1 \text{ and } y=6",
        ),
        (
            "6, -1",
            "x=6, y=-1",
            "x=-1",
            r"x=-1 \text{ or } y=6",
            "(6,-1)",
            "x=-1, y=-6",
        ),
    ),
    (
        r"p=3,q=7 \text{ or } p=7,q=3",
        (
            r"p=7,q=3 \text{ or } p=3,q=7",
            "(3,7),(7,3)",
        ),
        (
            r"p=3,q=3 \text{ or } p=7,q=7",
            "p=3,q=7",
            "3, 7",
            r"p=3 \text{ or } q=7",
        ),
    ),
    (
        "a=2,b=5,c=-1",
        (
            "c=-1,b=5,a=2",
            "2, 5, -1",
            r"a=2, b=5, \text{ and } c=-1",
        ),
        (
            "2,-1,5",
            "a=2,b=5",
            "a=2, b=5, c=1",
            r"a=2 \text{ or } b=5 \text{ or } c=-1",
        ),
    ),
    (
        "3-2i",
        (
            "3 - 2i",
            "-2i+3",
            r"\frac{13}{3+2i}",
            "3\u22122i",
        ),
        (
            "3+2i",
            "-3+2i",
            "2-3i",
            "3-2",
            "(3,-2i)",
            "3i-2",
            r"\pm(3-2i)",
        ),
    ),
    (
        "1101_2",
        (
            "1101_{2}",
            "(1101)_2",
            "1101",
            "15_8",
        ),
        (
            "1101_3",
            "1011_2",
            "1101_{10}",
            "11010_2",
        ),
    ),
    (
        r"a_n = 3\cdot 2^{n-1}",
        (
            r"3\cdot2^{n-1}",
            r"\frac{3\cdot 2^n}{2}",
            r"a_k=3\cdot2^{k-1}",
        ),
        (
            r"3\cdot 2^n",
            "6^{n-1}",
            r"a_n = 3\cdot 2^{k-1}",
            r"b_n=3\cdot 2^{n-1}",
            r"3\cdot 2^{n}-1",
            r"a_{n+1} = 3\cdot 2^{n-1}",
        ),
    ),
    (
        "g(3)=-8",
        (
            "-8",
            "g(3)=-8",
            "g(3) = 1 - 9 = -8",
        ),
        (
            "8",
            "g(-8)=3",
            "g(4)=-8",
            "g'(3)=-8",
            "3",
        ),
    ),
    (
        r"48^\circ 30'",
        (
            r"48.5^\circ",
            r"48^{\circ}30^{\prime}",
            r"48^\circ 30' 0''",
            "48.5",
        ),
        (
            r"48.3^\circ",
            r"48^\circ",
            r"30^\circ 48'",
            r"48^\circ 30''",
            "48.5'",
        ),
    ),
    (
        r"\sqrt{7}",
        (
            r"\sqrt7 \approx 2.65",
            r"x = \sqrt{7}",
            r"\sqrt{28}/2 = \sqrt7",
            r"\frac{7}{\sqrt7}",
        ),
        (
            "2.65",
            r"\sqrt7 \approx 2.75",
            r"\sqrt{7} = 3.5",
            "7",
            r"\sqrt{7} \ne 2.6",
            r"< \sqrt7",
        ),
    ),
    (
        r"\frac{22}{7}",
        (
            r"22/7 \approx 3.143",
            r"3\frac17",
            r"3.\overline{142857}",
        ),
        (
            r"\pi",
            "3.14",
            r"22/7 = \pi",
            r"\frac{22}{7}\pi",
        ),
    ),
    (
        r"6.02\times10^{23}",
        (
            "6.02e23",
            r"602\times 10^{21}",
            r"6.02 \cdot 10^{23}",
        ),
        (
            r"6.02\times10^{22}",
            r"6.02\times 10^{-23}",
            "6.02",
            r"6.2\times10^{23}",
            "6.02^{23}",
        ),
    ),
    (
        "1.7321",
        (
            r"\sqrt3",
            "1.7321",
            "1.73205",
        ),
        (
            "1.732",
            "1.7320",
            "1.7322",
            r"\sqrt{2.9}",
        ),
    ),
    (
        "14",
        (
            r"\text{exactly } 14",
            r"14 \text{ (not } 15)",
            r"14, \text{ since } 2\cdot7=14",
            r"2 \cdot 7",
            "14.000",
            r"\mathbf{14}",
            "{14}",
            "+14",
        ),
        (
            "14 or 15",
            "not 14",
            r"14? \text{ or } 16",
            "14, I guess, or 15",
            r"\text{either } 14 \text{ or } 12",
            "more than 14",
            r"\text{at most } 14",
            r"14 \text{ is wrong}",
            r"14 \ne 15",
            r"\approx 14.4",
            "14 = 13",
            "13 < 14",
            r"\geq 14",
            r"\text{anything except } 14",
            "14^{-1}",
            "14!/13",
            "14'",
            "14_{7}",
            "1 4",
            "14, 14, 15",
            r"\text{twice } 14",
            r"14 \text{ dozen}",
        ),
    ),
    (
        r"\frac{9}{4}",
        (
            r"2\frac14",
            "2.25",
            r"\left(\frac{3}{2}\right)^2",
            "1.5^2",
            r"9 \div 4",
        ),
        (
            r"\frac94 \text{ or } \frac49",
            r"\frac{9}{4}, \frac{4}{9}",
            "2.2",
            "9 4",
            r"\sqrt{\frac94}",
            r"\lfloor 9/4 \rfloor",
            r"-(\frac94)",
        ),
    ),
    (
        "1, 1, 2",
        ("1,2,1",),
        (
            "1,1,1,2",
            "1, 1, 2, 2",
        ),
    ),
    ("1, 2", ("1, 2, 2",), ("1,2,3",)),
    (
        r"x \ne 5",
        (
            r"5 \neq x",
            r"x-5 \ne 0",
        ),
        (
            r"5 \ne -x",
            r"x \ne 6",
            "x < 5",
            r"y \ne 5",
            "x=5",
        ),
    ),
    (
        "14",
        (
            r"\text{exactly } 14",
            "exactly 14",
        ),
        (
            "exactly 15",
            "exactly 14 or 15",
            r"\text{not exactly } 14",
        ),
    ),
    (
        "49/4",
        (),
        (
            r"6 \text{ and } \frac{25}{4}",
            "6 and 25/4",
        ),
    ),
    (
        r"\{2, 1/2\}",
        (
            r"2 \text{ and } 1/2",
            "1/2 and 2",
            r"2 and \frac12",
        ),
        (
            "5/2",
            "2 and 1/3",
        ),
    ),
    (
        "5/2",
        (
            "2 and 1/2",
            r"2 \text{ and } \frac12",
        ),
        (
            "2 and 3/2",
            "2, 1/2",
            "-2 and 1/2",
        ),
    ),
    (
        "2 and 3/4",
        (
            "11/4",
            "2.75",
            "2 3/4",
        ),
        (
            "3/4",
            "2",
            "2/4",
        ),
    ),
    (
        "-2 and 3/4",
        ("-11/4",),
        (
            "11/4",
            "-5/4",
        ),
    ),
    (
        "y = 7, x = 5",
        (
            "(5, 7)",
            "x=5, y=7",
            "7, 5",
        ),
        (
            "(7, 5)",
            "5, 7",
            r"\begin{pmatrix}7\\5\end{pmatrix}",
        ),
    ),
    ("z=1, x=2, y=3", ("(2,3,1)",), ("(1,2,3)",)),
    (
        "b=1, a=2",
        (
            "(1,2)",
            "b=1,a=2",
        ),
        ("b=2,a=1",),
    ),
    ("(5,7)", ("y=7,x=5",), ("y=5,x=7",)),
    (
        r"-(-x) + \ln(5) + y + 3",
        (
            r"y + 3 + \ln(5) + (-(-x))",
            r"x+y+3+\ln 5",
        ),
        (r"y + 3 + \ln(5) - x",),
    ),
    (
        "x",
        (
            "-(-x)",
            "(-(-x))",
            "-((-x))",
        ),
        (
            "-(x)",
            "-(-(-x))",
        ),
    ),
)
"""Gold, right and wrong answers, each put into a box."""
RESPONSES: Table = (
    (
        "27",
        (
            "The sum is 27. So the answer is **27**.",
            r"After some work we get \boxed{27}. I hope this helps!",
            "Answer: 27",
            "#### 27",
            "<answer>27</answer>",
            "I thought of 26 first.\n\nFinal answer: \\boxed{27}",
            r"\boxed{26} is wrong, since 26 is even. The answer is \boxed{27}.",
        ),
        (
            "The answer is 27 or 28.",
            "The answer is not 27.",
            r"\boxed{27} is incorrect; the answer is \boxed{28}.",
            r"\boxed{26} \boxed{27} \boxed{28}",
            "The answer is 26, 27 or 28.",
            "\\boxed{27}\n\nWait, I made a mistake. The answer is \\boxed{28}.",
            "Some say the answer is 27. They are wrong. The answer is 28.",
            r"\boxed{27} and \boxed{29}",
            "The answer is 28.\n\n(27 would be the answer if n were odd.)",
            "I doubt that the answer is 27.",
            r"Is the answer 27? No. \boxed{30}",
            "The answer is",
            r"\boxed{",
            r"\boxed{2",
            r"So \boxed{27",
            "The answer is 27 28 29 30 31 32",
            "",
            r"The answer is $\boxed{}$.",
        ),
    ),
    (
        "-5",
        (
            "Thus $x = \u22125$. The answer is \u22125.",
            "The answer is $- 5$.",
            "#### -5",
            "\\boxed{\u22125}",
        ),
        (
            "The answer is - . 5",
            "The answer is 5.",
            r"\boxed{5}",
            "The answer is $x - 5$.",
            "The answer is 3-5.",
            "The answer is -5 or 5.",
            "The answer is \u22125 and \u22126.",
        ),
    ),
    (
        "3/8",
        (
            "The probability is 3/8.",
            r"Therefore, the answer is $\frac{3}{8}$, i.e. 37.5%.",
            r"The answer is \( \frac{3}{8} \).",
            "The answer is 3/8 = 0.375.",
        ),
        (
            "The answer is 3. /8",
            "The answer is 8/3.",
            r"The answer is 3/8 = 0.38. That is 0.38 exactly, \boxed{0.38}",
            "We get 3/8, but the answer is 5/8.",
            "The answer is between 3/8 and 1/2.",
        ),
    ),
    (
        "Paris",
        (
            "The capital is Paris.\n\nThe answer is Paris.",
            r"\boxed{\text{Paris}}",
        ),
        (
            "The answer is London, not Paris.",
            "The answer is Paris or London.",
            "The answer is not Paris.",
        ),
    ),
    (
        "x^2+2x",
        (
            "The answer is $x^2 + 2x$.",
            r"Hence $f(x) = \boxed{x(x+2)}$.",
        ),
        (
            "The answer is $x^2+2x+C$.",
            "The answer is $x^2-2x$.",
            "The answer is $x^2$ + $2x$ + 1.",
            "The answer is $x^2+2x=0$.",
        ),
    ),
    (
        "8, 12",
        (
            "The answer is 8 and 12.",
            r"\boxed{8} and \boxed{12}",
            r"The answers are \boxed{8, 12}.",
            "#### 8, 12",
            "The answer is $12$ and $8$.",
        ),
        (
            "The answer is 8. And 13.",
            r"\boxed{8}",
            r"\boxed{8}, \boxed{12}, \boxed{16}",
            "The answer is 8 but not 12.",
            "The answer is 812.",
        ),
    ),
    (
        "1/6",
        (
            "The answer is 1/3. Correction: the answer is 1/6.",
            r"The book says 1/3. That is wrong. \boxed{1/6}",
            "<think>1/3? no, 1/6</think>\nThe answer is 1/6.",
        ),
        (
            "The answer is 1/6. No wait, the answer is 1/3.",
            "The answer is 1/6\nThe answer is 1/3",
            r"\boxed{1/6} is what most people say. \boxed{1/3} is right.",
            r"Reference answer: 1/6. My answer: \boxed{1/2}",
            r'"The answer is 1/6" is what the book says, but it is wrong: \boxed{1/4}',
        ),
    ),
    (
        "72",
        (
            "Let me check: 8*9 = 72. \\boxed{72}\n\\boxed{72}",
            r"The final answer is: $\boxed{72}$.",
            "So, 72. The answer is 72 (seventy-two).",
            "The answer is seventy-two.",
        ),
        (
            "The answer is one of: 70, 71, 72, 73, 74",
            "Possible answers: 72, 73.",
            "72\n73\n74\n75",
            "The answer is 72 72 72 73",
            "The final answer could be 72. Or perhaps 73.",
            r"Let us guess: \boxed{71}, \boxed{72}",
            "The answer is $72$ if n is even and $71$ if n is odd.",
            "The answer is 71.\n####\n72 is wrong",
            r"The answer: 72 cm? No: 7.2 m, so \boxed{7.2}",
        ),
    ),
)
"""Gold, right and wrong responses."""


def _passes(gold: str, response: str) -> bool:
    said = final_answer(response, SETTINGS, (gold,))
    return not isinstance(said, str) and judge_in_time((gold,), said.text, SETTINGS).passed is True


def _boxed(answer: str) -> str:
    return f"The answer is $\\boxed{{{answer}}}$."


@pytest.mark.parametrize(("gold", "right", "wrong"), ANSWERS)
def test_answers(gold: str, right: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    assert [one for one in right if not _passes(gold, _boxed(one))] == []
    assert [one for one in wrong if _passes(gold, _boxed(one))] == []


@pytest.mark.parametrize(("gold", "right", "wrong"), RESPONSES)
def test_responses(gold: str, right: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    assert [one for one in right if not _passes(gold, one)] == []
    assert [one for one in wrong if _passes(gold, one)] == []


def test_the_tables_have_both_kinds() -> None:
    assert all(wrong for _, _, wrong in (*ANSWERS, *RESPONSES))
