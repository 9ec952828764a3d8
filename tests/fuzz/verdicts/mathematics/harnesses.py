# ruff: noqa: RUF001 - golds and answers as their authors write them
r"""Golds in the spellings of public data sets, with answers as models write them, judged by hand.

The sets are those that trainers use: competition mathematics, science problems with units, choices,
word problems, logic. The golds and answers are written for this file. An answer that begins with `raw:`
is a whole response, the others stand in `\boxed{}`.
"""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.mathematics.equivalents import SAME_IN_OTHER_WORDS
from tests.fuzz.verdicts.mathematics.pairs import Pairs
from tests.fuzz.verdicts.mathematics.styles import STYLES
from tests.fuzz.verdicts.mathematics.symbols import SYMBOLS

_RAW: Final = "raw:"


PAIRS: Final = (
    Pairs(
        "DeepMath", r"\dfrac{\pi}{4}",
        (r"\frac{\pi}{4}", r"\pi/4", r"\frac{1}{4}\pi", r"\dfrac{\pi}{4}", r"0.25\pi", r"\tfrac{\pi}{4}",),
        (r"\frac{\pi}{3}", r"-\frac{\pi}{4}", r"\frac{4}{\pi}", r"\frac{\pi}{2}",),
    ),
    Pairs(
        "DeepMath", "Yes",
        ("Yes", r"\text{Yes}", "yes", r"\textbf{Yes}", r"\text{Yes.}", "raw:The answer is yes.",),
        ("No", r"\text{No}", "Not yes", "Yes or no",),
    ),
    Pairs(
        "DeepMath", "0",
        ("0", "0.0", r"\text{0}", "zero",),
        ("1", "-1", "10", r"\infty", "0.1",),
    ),
    Pairs(
        "DeepMath", r"\infty",
        (r"\infty", r"+\infty", r"\text{infinity}", "∞",),
        (r"-\infty", "0", "1",),
    ),
    Pairs(
        "DeepMath", r"-\infty",
        (r"-\infty", r"- \infty", "-∞",),
        (r"\infty", "0",),
    ),
    Pairs(
        "DeepMath", r"\ln 2",
        (r"\ln 2", r"\ln(2)", r"\log 2", r"\log(2)", r"\ln{2}", r"\ln\left(2\right)", r"\frac{1}{2}\ln 4", r"\log_e 2", r"-\ln\frac12",),
        (r"\ln 3", r"-\ln 2", r"\log_{10} 2", "2", r"\log_2 2",),
    ),
    Pairs(
        "DeepMath", "e^{-1}",
        ("e^{-1}", r"\frac{1}{e}", "1/e", r"\exp(-1)", r"\mathrm{e}^{-1}",),
        ("e", "-e", r"-\frac1e", "e^{-2}",),
    ),
    Pairs(
        "DeepMath", r"\frac{\sqrt{3}}{2}",
        (r"\frac{\sqrt{3}}{2}", r"\sqrt{3}/2", r"\sin 60^\circ", r"\cos\frac{\pi}{6}", r"\frac{\sqrt3}{2}", r"\sqrt{\frac{3}{4}}", r"\frac{3}{2\sqrt{3}}",),
        (r"\frac{\sqrt{2}}{2}", r"-\frac{\sqrt{3}}{2}", r"\frac{3}{2}", r"\frac{\sqrt{3}}{4}",),
    ),
    Pairs(
        "DeepMath", "n!",
        ("n!",),
        ("(n-1)!", "n", "n^n", "(n+1)!",),
    ),
    Pairs(
        "DeepMath", r"\frac{n(n+1)}{2}",
        (r"\frac{n(n+1)}{2}", r"\frac{n^2+n}{2}", "n(n+1)/2", r"\binom{n+1}{2}", r"\frac{1}{2}n(n+1)",),
        (r"\frac{n(n-1)}{2}", r"\frac{n^2}{2}", "n(n+1)",),
    ),
    Pairs(
        "DeepMath", "2^n - 1",
        ("2^n - 1", "2^{n}-1", "-1+2^n",),
        ("2^n", "2^n+1", "2^{n-1}",),
    ),
    Pairs(
        "DeepMath", r"\mathbb{Z}_2 \times \mathbb{Z}_3",
        (r"\mathbb{Z}_2 \times \mathbb{Z}_3",),
        (r"\mathbb{Z}_2", r"\mathbb{Z}_3", r"\mathbb{Z}_2 \times \mathbb{Z}_5",),
    ),
    Pairs(
        "DeepMath", r"\mathbb{Z}",
        (r"\mathbb{Z}", r"\mathbb Z",),
        (r"\mathbb{Q}", "0", r"\mathbb{N}",),
    ),
    Pairs(
        "DeepMath", r"\text{True}",
        (r"\text{True}", "True", "true",),
        ("False", r"\text{False}",),
    ),
    Pairs(
        "DeepMath", r"\text{Does not exist}",
        (r"\text{does not exist}", "DNE", r"\text{The limit does not exist}", r"\text{DNE}",),
        ("0", "1", r"\infty",),
    ),
    Pairs(
        "DeepMath", "f(x) = x^2 + 1",
        ("f(x) = x^2 + 1", "x^2+1", "f(x)=1+x^2", "f(x) = x^{2}+1",),
        ("x^2-1", "f(x)=x^2", "x^2+2",),
    ),
    Pairs(
        "DeepMath", "y = Ce^{2x}",
        ("y = Ce^{2x}", "y = C e^{2 x}", "Ce^{2x}", "y(x)=Ce^{2x}",),
        ("y=Ce^{-2x}", "y=Ce^{x}", "e^{2x}",),
    ),
    Pairs(
        "DeepMath", r"\frac{1}{2}",
        (r"\frac{1}{2}", "0.5", "1/2", ".5", r"\frac12", "0.50", "2^{-1}", r"\frac{2}{4}",),
        (r"-\frac{1}{2}", "2", r"\frac13", "0.25", r"\frac{1}{2}x",),
    ),
    Pairs(
        "Omni", r"\frac{1+\sqrt{5}}{2}",
        (r"\frac{1+\sqrt{5}}{2}", r"\frac{1 + \sqrt5}{2}", r"\phi = \frac{1+\sqrt5}{2}", r"\frac{\sqrt{5}+1}{2}", r"\frac12+\frac{\sqrt5}{2}",),
        (r"\frac{1-\sqrt{5}}{2}", r"\frac{\sqrt{5}-1}{2}", r"\sqrt5",),
    ),
    Pairs(
        "Omni", "(1, 2), (2, 1)",
        ("(1,2),(2,1)", "(2,1),(1,2)", r"(1, 2) \text{ and } (2, 1)", r"\{(1,2),(2,1)\}", "(x,y)=(1,2),(2,1)", r"(1,2)\text{ or }(2,1)",),
        ("(1,2)", "(2,1)", "(1,2),(2,2)", "(1,2),(2,1),(3,3)",),
    ),
    Pairs(
        "Omni", "2, 3, 5",
        ("2,3,5", "5, 3, 2", r"\{2,3,5\}", r"2, 3, \text{ and } 5", r"2, 3 \text{ and } 5", "n = 2, 3, 5", r"n \in \{2,3,5\}",),
        ("2,3", "2,3,7", "5", "2,3,5,7",),
    ),
    Pairs(
        "Omni", r"f(x) = 0 \text{ and } f(x) = x",
        (r"f(x) = 0 \text{ and } f(x) = x", r"f(x)=x \text{ or } f(x)=0", "f(x)=0, f(x)=x",),
        ("f(x)=0", "f(x)=x", r"f(x)=0 \text{ and } f(x)=-x",),
    ),
    Pairs(
        "Omni", "n^2 - n + 1",
        ("n^2-n+1", "n(n-1)+1", "1 - n + n^2",),
        ("n^2-n", "n^2+n+1", "n^2 - n - 1",),
    ),
    Pairs(
        "Omni", r"\text{All odd integers}",
        (r"\text{all odd integers}", r"\text{All odd integers.}",),
        (r"\text{all even integers}", r"\text{all integers}",),
    ),
    Pairs(
        "Omni", r"\left\lfloor \frac{n}{2} \right\rfloor",
        (r"\left\lfloor \frac{n}{2} \right\rfloor", r"\lfloor n/2 \rfloor", r"\lfloor \frac n2\rfloor",),
        (r"\lceil n/2 \rceil", r"\frac n2", r"\lfloor n/3 \rfloor",),
    ),
    Pairs(
        "Omni", "2^{1000}",
        ("2^{1000}", "4^{500}",),
        ("2^{1001}", "2^{100}", "2^{999}", "1000^2",),
    ),
    Pairs(
        "Omni", r"\binom{2n}{n}",
        (r"\binom{2n}{n}", r"\frac{(2n)!}{(n!)^2}", r"\dbinom{2n}{n}", r"{2n \choose n}", r"\frac{(2n)!}{n!n!}",),
        (r"\binom{n}{2}", r"\binom{2n}{n-1}", "2^n",),
    ),
    Pairs(
        "Omni", "1009",
        ("1009", "1{,}009", "1,009", r"\text{1009}", "n=1009",),
        ("1010", "1009.5", "-1009", "10009", "109",),
    ),
    Pairs(
        "Omni", r"\frac{2021}{2022}",
        (r"\frac{2021}{2022}", r"1-\frac{1}{2022}", "2021/2022",),
        (r"\frac{2022}{2021}", r"\frac{2020}{2021}", "1",),
    ),
    Pairs(
        "Omni", r"3\sqrt{2} + 2\sqrt{3}",
        (r"2\sqrt3+3\sqrt2", r"3\sqrt{2} + 2\sqrt{3}", r"\sqrt{18}+\sqrt{12}",),
        (r"3\sqrt2-2\sqrt3", r"2\sqrt2+3\sqrt3", r"5\sqrt5",),
    ),
    Pairs(
        "Omni", "No",
        ("No", r"\text{No}", r"\text{no}",),
        ("Yes",),
    ),
    Pairs(
        "Omni", r"k \geq 3",
        (r"k \geq 3", r"k\ge 3", r"3 \le k", r"[3,\infty)",),
        ("k > 3", r"k \le 3", "k=3", "3",),
    ),
    Pairs(
        "Omni", "a = b = c",
        ("a=b=c", "a = b = c",),
        ("a=b",),
    ),
    Pairs(
        "AIME", "073",
        ("73", "073", r"\text{073}", "73.0", "073.",),
        ("730", "037", "-73", "74",),
    ),
    Pairs(
        "AIME", "204",
        ("204", r"\mathbf{204}", "m+n=204", r"\text{204}", "204.", "100+104 = 204", r"\textbf{204}", r"raw:The answer is $\boxed{204}$.", "raw:Answer: 204", "raw:Answer: $204$", r"raw:Answer: \boxed{204}", "raw:**Answer: 204**", r"raw:The final answer is \boxed{204}.",),
        ("205", "24", "-204", "2.04", "raw:Answer: 205", "raw:Answer: $-204$",),
    ),
    Pairs(
        "DAPO", "-34",
        ("-34", "− 34", "- 34", r"\text{-}34", "{-34}", "raw:Answer: -34", "raw:Answer: $-34$",),
        ("34", "raw:Answer: 34", "-43",),
    ),
    Pairs(
        "DAPO", "1",
        ("1", r"\text{1}", "1.0", "raw:Answer: 1",),
        ("2", "-1", "10", "11", "raw:Answer: 2",),
    ),
    Pairs(
        "Minerva", "1.6e-19",
        (r"1.6 \times 10^{-19}", "1.6e-19", r"1.60 \times 10^{-19}", r"1.6\cdot10^{-19}", r"1.6 \times 10^{-19} \text{ C}", "1.6E-19", "1.6 × 10^{-19}", "1.6*10^-19",),
        (r"1.6 \times 10^{19}", r"1.7 \times 10^{-19}", r"-1.6\times 10^{-19}", "1.6", r"1.6 \times 10^{-18}",),
    ),
    Pairs(
        "Minerva", "4.5e33",
        (r"4.5 \times 10^{33}", "4.5e33", r"4.5 \times 10^{33} \text{ erg}", r"4.5\times10^{33}\,\mathrm{erg\,s^{-1}}",),
        (r"4.5 \times 10^{32}", "4.5", r"5.4\times 10^{33}",),
    ),
    Pairs(
        "Minerva", r"\arcsin{1.3}",
        (r"\arcsin(1.3)", r"\sin^{-1}(1.3)", r"\arcsin 1.3",),
        (r"\arccos(1.3)", r"\arcsin(1.4)", "1.3",),
    ),
    Pairs(
        "Minerva", r"x_{0} \cos (\omega t)+\frac{\dot{x}_{0}}{\omega} \sin (\omega t)",
        (r"x_0 \cos(\omega t) + \frac{\dot{x}_0}{\omega}\sin(\omega t)", r"x_{0} \cos (\omega t)+\frac{\dot{x}_{0}}{\omega} \sin (\omega t)",),
        (r"x_0 \cos(\omega t) - \frac{\dot{x}_0}{\omega}\sin(\omega t)", r"x_0 \sin(\omega t)",),
    ),
    Pairs(
        "SciBench", "+0.45",
        ("0.45", "+0.45", "0.450",),
        ("-0.45", "0.54", "4.5",),
    ),
    Pairs(
        "SciBench", "-2.3",
        ("-2.3", "-2.30", r"-2.3 \text{ kJ/mol}", r"-2.3\ \mathrm{kJ\,mol^{-1}}",),
        ("2.3", "-3.2",),
    ),
    Pairs(
        "SciBench", "1.22",
        ("1.22", r"1.22 \text{ m/s}", r"1.22 \, \text{m/s}", r"1.22\ \mathrm{m\,s^{-1}}", r"\approx 1.22", r"1.22\,\mathrm{m}", r"1.22 \mathrm{~m}",),
        ("12.2", "1.23", "-1.22", "0.122",),
    ),
    Pairs(
        "SciBench", r"6.02 \times 10^{23}",
        ("6.02e23", r"6.02 \times 10^{23}", r"6.02 \times 10^{23}\ \text{mol}^{-1}",),
        (r"6.02\times 10^{22}", r"6.03 \times 10^{23}",),
    ),
    Pairs(
        "Units", "12",
        (r"12 \text{ m}^2", r"12\ \text{m}^2", "12 m^2", r"12\,\mathrm{cm}^2", r"12 \text{ cm}^3", r"12\text{ square units}", r"12 \text{ sq. ft}", r"12\text{ cm}^{2}", r"12 \, \mathrm{m^2}", r"12\text{ m²}", "12 m²", "12 km/h", r"12 \text{ km/h}", r"12^\circ", r"12\%", r"\$12", r"12\text{ dollars}", r"12 \text{ N}\cdot\text{m}", "12 J", r"12 \mathrm{~J}", r"12 \text{ kg m/s}^2", r"12\text{ ways}", r"12 \text{ (people)}", "12 apples",),
        ("12^2", "144", "21", "-12", "12x", "12m^2+1", r"\frac{12}{5}",),
    ),
    Pairs(
        "Units", "12 m^2",
        ("12", r"12\text{ m}^2", r"12 \text{ square meters}", "12 m^2", r"12\ \mathrm{m}^2", "12 m²",),
        (r"12 \text{ cm}^2", r"12\text{ m}", r"12 \text{ m}^3", "21", r"24 \text{ m}^2",),
    ),
    Pairs(
        "Units", "1.5 hours",
        ("1 hour 30 minutes", "1.5 hours", "1.5", r"1\text{ hour }30\text{ minutes}", r"1.5 \text{ h}", "1 h 30 min", r"1\frac{1}{2} \text{ hours}", r"\frac{3}{2}\text{ hours}",),
        ("1 hour", "1 hour 20 minutes", "2.5 hours", "30 minutes", "1.3 hours",),
    ),
    Pairs(
        "Units", "1 hour 30 minutes",
        ("1.5 hours", "1 hour 30 minutes", "1 hour and 30 minutes", "1 h 30 min", "90 minutes", r"1\text{ hr }30\text{ min}", r"1.5\text{ hr}",),
        ("1 hour", "30 minutes", "1 hour 13 minutes", "130 minutes", "80 minutes", "1.3 hours",),
    ),
    Pairs(
        "Units", "3 feet 4 inches",
        ("3 feet 4 inches", "40 inches", "3 ft 4 in", r"3\text{ ft }4\text{ in}",),
        ("3 feet", "4 inches", "34 inches", "3 feet 5 inches",),
    ),
    Pairs(
        "Units", r"50 \text{ km/h}",
        ("50", "50 km/h", r"50\text{ km/hr}", r"50 \text{ kilometers per hour}", r"50\,\mathrm{km/h}", "50 kph",),
        (r"50 \text{ m/s}", r"5 \text{ km/h}", "50 mph", "60 km/h",),
    ),
    Pairs(
        "Units", r"\$18.90",
        ("18.90", r"\$18.9", "18.9", "18.90 dollars", r"\$18.90", "USD 18.90",),
        (r"\$18.09", "18", "1890", "-18.90",),
    ),
    Pairs(
        "Units", r"30^\circ",
        ("30", r"30^\circ", r"30^{\circ}", "30°", "30 degrees", r"30\text{ degrees}", r"\angle A = 30^\circ", r"\theta=30^\circ",),
        (r"60^\circ", r"-30^\circ", "30 radians", "3",),
    ),
    Pairs(
        "Complex", r"2\operatorname{cis} 60^\circ",
        (r"2\operatorname{cis} 60^\circ", r"2 \text{cis} 60^\circ", r"2 \text{ cis } 60^\circ", r"1+\sqrt{3}i", r"2(\cos 60^\circ + i \sin 60^\circ)", r"2e^{i\pi/3}", r"2\operatorname{cis}\frac{\pi}{3}", r"2\,\mathrm{cis}(60^\circ)", r"2\text{cis}(\pi/3)",),
        (r"2\operatorname{cis}30^\circ", r"3\operatorname{cis}60^\circ", r"1-\sqrt3 i", r"2\operatorname{cis}(-60^\circ)", "2", "60",),
    ),
    Pairs(
        "Complex", r"2e^{i\pi/3}",
        (r"2(\cos\frac{\pi}{3}+i\sin\frac{\pi}{3})", r"1+i\sqrt3", r"2 e^{\frac{i\pi}{3}}", r"2e^{\pi i/3}", r"2\operatorname{cis}\frac{\pi}{3}",),
        (r"2e^{-i\pi/3}", r"2e^{i\pi/6}", r"e^{i\pi/3}",),
    ),
    Pairs(
        "Polar", r"\left( 3, \frac{\pi}{2} \right)",
        (r"(3, \frac{\pi}{2})", r"(3,\pi/2)", r"(r,\theta)=(3,\frac{\pi}{2})", r"\left(3,\frac{\pi}{2}\right)",),
        (r"(3,-\frac{\pi}{2})", r"(\frac{\pi}{2},3)", r"(3,\pi)", r"(2,\frac\pi2)",),
    ),
    Pairs(
        "Angle", r"\frac{\pi}{6}",
        (r"\frac{\pi}{6}", r"\pi/6", r"\frac{\pi}{6}\text{ radians}", r"\frac{\pi}{6} \text{ rad}", r"x=\frac{\pi}{6}",),
        (r"\frac{\pi}{3}", r"-\frac\pi6",),
    ),
    Pairs(
        "GPQA", "C",
        ("C", r"\text{C}", "(C)", r"\textbf{(C)}", r"\text{(C)}", "C. 42", r"\text{C}.", r"\mathrm{C}", "raw:The answer is (C).", "raw:Answer: C", "raw:**Answer: C**", "raw:The correct answer is (C) 42.",),
        ("D", r"\text{B}", "A or C", "(D)", "raw:Answer: B", "raw:The answer is not C.",),
    ),
    Pairs(
        "AMC", r"\textbf{(C) } 5",
        ("C", "5", r"\textbf{(C)}\ 5", "(C) 5", r"\text{C}",),
        ("B", "6", "(B) 5", "(C) 6",),
    ),
    Pairs(
        "Numina", r"x \in (-\infty, -1) \cup (2, \infty)",
        (r"(-\infty,-1)\cup(2,\infty)", r"x<-1 \text{ or } x>2", r"x \in (-\infty,-1)\cup(2,+\infty)", r"\{x \mid x<-1 \text{ or } x>2\}", r"(-\infty,-1) \cup (2,+\infty)",),
        (r"(-\infty,-1]\cup(2,\infty)", "(-1,2)", r"(2,\infty)", r"(-\infty,1)\cup(2,\infty)", "x>2",),
    ),
    Pairs(
        "Numina", r"a \leqslant 3",
        (r"a \le 3", r"a\leq 3", r"(-\infty, 3]", r"a \leqslant 3",),
        ("a<3", r"a \ge 3", "3",),
    ),
    Pairs(
        "Numina", "x_{1}=1, x_{2}=-3",
        ("x_1=1, x_2=-3", "x=1,-3", "1, -3", r"x=1 \text{ or } x=-3", r"\{1,-3\}",),
        ("1", "-3", "1,3", "x=-1, 3",),
    ),
    Pairs(
        "Numina", "x=2, y=3",
        ("(2,3)", "x=2, y=3", r"x=2,\ y=3", "y=3, x=2", "(x,y)=(2,3)", r"x=2 \text{ and } y=3",),
        ("x=3,y=2", "(3,2)", "x=2", "2",),
    ),
    Pairs(
        "Numina", r"10 \mathrm{~cm}",
        ("10", r"10\text{ cm}", "10 cm", r"10\,\mathrm{cm}",),
        ("10 m", "100", "1",),
    ),
    Pairs(
        "Numina", r"\frac{7}{25}",
        (r"\frac{7}{25}", "0.28", "7/25", r"\dfrac{7}{25}", r"28\%",),
        (r"-\frac{7}{25}", r"\frac{25}{7}", r"\frac{24}{25}",),
    ),
    Pairs(
        "Numina", "3: 2",
        ("3:2", r"\frac{3}{2}", "3/2", r"3 \text{ to } 2", "6:4", "1.5",),
        ("2:3", "3:4", r"\frac23",),
    ),
    Pairs(
        "Numina", "60 %",
        (r"60\%", "0.6", "60", "60 percent", r"\frac35",),
        (r"40\%", "6", "0.06",),
    ),
    Pairs(
        "Numina", r"12 \text{ and } 8",
        ("12, 8", r"8 \text{ and } 12", "12 and 8",),
        ("12", "8", "12, 9",),
    ),
    Pairs(
        "Numina", r"\overline{abc} = 198",
        ("198", r"\overline{abc}=198",),
        ("189", "891",),
    ),
    Pairs(
        "Numina", "y^{2}=8x",
        ("y^2=8x", "8x=y^2", "y^2 - 8x=0", r"x=\frac{y^2}{8}",),
        ("y^2=-8x", "x^2=8y", "y^2=4x",),
    ),
    Pairs(
        "Numina", r"\frac{x^{2}}{4}+\frac{y^{2}}{3}=1",
        (r"\frac{x^2}{4}+\frac{y^2}{3}=1", "3x^2+4y^2=12", r"\frac{y^2}{3}+\frac{x^2}{4}=1",),
        (r"\frac{x^2}{3}+\frac{y^2}{4}=1", r"\frac{x^2}{4}-\frac{y^2}{3}=1",),
    ),
    Pairs(
        "Numina", "(x-1)^2+(y+2)^2=25",
        ("(x-1)^2+(y+2)^2=25", "(y+2)^2+(x-1)^2=5^2", "x^2+y^2-2x+4y-20=0",),
        ("(x+1)^2+(y-2)^2=25", "(x-1)^2+(y+2)^2=5",),
    ),
    Pairs(
        "Numina", r"2\sqrt{2}",
        (r"2\sqrt2", r"\sqrt8", r"2 \sqrt{2}", r"2\cdot\sqrt{2}", r"\frac{4}{\sqrt2}", "2^{3/2}",),
        (r"\sqrt2", r"-2\sqrt2", "2", r"\sqrt{6}", r"\pm2\sqrt2",),
    ),
    Pairs(
        "Numina", r"\pm 2",
        (r"\pm2", "2,-2", "-2, 2", r"2 \text{ or } -2", r"x=\pm 2", r"\{-2,2\}",),
        ("2", "-2", r"\pm 3", r"\pm\sqrt2",),
    ),
    Pairs(
        "Numina", r"(0,+\infty)",
        (r"(0,\infty)", "x>0", r"(0,+\infty)", "x > 0", r"(0, +\infty)",),
        (r"[0,\infty)", r"(-\infty,0)", r"x\ge0",),
    ),
    Pairs(
        "Numina", r"-\frac{1}{2}<a<0",
        (r"-\frac12<a<0", r"(-\frac12,0)", r"0>a>-\frac12", r"a\in(-\frac{1}{2},0)",),
        (r"-\frac12\le a<0", r"0<a<\frac12", r"[-\frac12,0]",),
    ),
    Pairs(
        "Numina", "2^{n}",
        ("2^n", "2^{n}",),
        ("2n", "n^2", "2^{n+1}",),
    ),
    Pairs(
        "Numina", "a_n = 2n - 1",
        ("2n-1", "a_n=2n-1", "a_{n}=2n-1",),
        ("2n+1", "a_n=n-1", "a_n = 2n",),
    ),
    Pairs(
        "Numina", r"\{x | x > 1\}",
        (r"(1,\infty)", "x>1", r"\{x\mid x>1\}", r"\{x: x>1\}",),
        (r"x\ge1", "x<1", r"[1,\infty)",),
    ),
    Pairs(
        "Numina", r"\varnothing",
        (r"\emptyset", r"\varnothing", r"\{\}", r"\text{no solution}", r"\text{No solutions}", r"\text{empty set}",),
        ("0", r"\{0\}", "1",),
    ),
    Pairs(
        "ORZ", r"100\pi",
        (r"100\pi", r"100 \pi", "100π", r"\pi\cdot100",),
        (r"10\pi", "100", r"-100\pi", r"100\pi^2",),
    ),
    Pairs(
        "ORZ", r"1 \frac{3}{4}",
        (r"1\frac34", r"\frac74", "1.75", "7/4", "1 3/4", r"1\tfrac{3}{4}",),
        (r"\frac34", r"\frac{13}{4}", r"1\frac14",),
    ),
    Pairs(
        "Skywork", "1,000,000",
        ("1000000", "10^6", "1,000,000", "1{,}000{,}000", "1 million", "10^{6}",),
        ("1000", "100000", "10000000", "1,000",),
    ),
    Pairs(
        "Skywork", "2.5",
        ("2.5", r"\frac52", r"2\frac12", "5/2", "2.50",),
        ("25", "-2.5", "2.6", "5.2",),
    ),
    Pairs(
        "Skywork", r"33.\overline{3}",
        (r"33.\overline{3}", r"\frac{100}{3}", r"33\frac13",),
        ("33", "34", "33.4",),
    ),
    Pairs(
        "Skywork", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}", "(1,2)", r"\langle 1,2\rangle",),
        (r"\begin{pmatrix}2\\1\end{pmatrix}", "(2,1)", r"\begin{pmatrix}1\\-2\end{pmatrix}",),
    ),
    Pairs(
        "Skywork", r"\begin{bmatrix} 1 & 0 \\ 0 & 1 \end{bmatrix}",
        (r"\begin{pmatrix}1&0\\0&1\end{pmatrix}", r"\begin{bmatrix}1 & 0\\0 & 1\end{bmatrix}",),
        (r"\begin{pmatrix}0&1\\1&0\end{pmatrix}", r"\begin{pmatrix}1&0\\0&-1\end{pmatrix}",),
    ),
    Pairs(
        "Putnam", r"\pi^2/6",
        (r"\frac{\pi^2}{6}", r"\pi^2/6", r"\frac{\pi^{2}}{6}",),
        (r"\frac{\pi}{6}", r"\frac{\pi^2}{12}", r"-\frac{\pi^2}{6}",),
    ),
    Pairs(
        "Putnam", r"\frac{e-1}{e}",
        (r"1-\frac1e", "1-e^{-1}", r"\frac{e-1}{e}", "(e-1)/e",),
        (r"\frac{1}{e}", r"\frac{e}{e-1}",),
    ),
    Pairs(
        "Putnam", "3^{2020} - 2^{2020}",
        ("3^{2020}-2^{2020}",),
        ("3^{2020}", "3^{2020}+2^{2020}", "3^{2021}-2^{2021}", "2^{2020}-3^{2020}",),
    ),
    Pairs(
        "Putnam", r"\text{even } n",
        (r"\text{even } n", r"\text{even }n",),
        (r"\text{odd } n", "n",),
    ),
    Pairs(
        "TheoremQA", "True",
        ("True", r"\text{True}", "true", "raw:The answer is True.",),
        ("False", "raw:The answer is False.",),
    ),
    Pairs(
        "TheoremQA", "[1, 2, 3]",
        ("[1,2,3]", "[1, 2, 3]",),
        ("[1,3,2]", "[1,2]", "[1,2,4]",),
    ),
    Pairs(
        "TheoremQA", "0.6667",
        ("0.6667", r"\frac23", "2/3", "0.66667",),
        ("0.7", "0.3333", "-0.6667", "0.6",),
    ),
    Pairs(
        "TheoremQA", "(b)",
        ("b", "(b)", r"\text{(b)}",),
        ("a", "(c)",),
    ),
    Pairs(
        "TheoremQA", "-4/7",
        (r"-\frac47", "-4/7", r"\frac{-4}{7}",),
        (r"\frac47", r"-\frac74",),
    ),
    Pairs(
        "GSM", "18",
        ("18", r"\$18", "18 dollars", "18.00", r"\$18.00", "raw:She makes 9 * 2 = $<<9*2=18>>18 every day.\n#### 18", "raw:#### 18", "raw:The answer is 18.", "raw:The answer is $18.", r"raw:The answer is \$18.", "raw:**18**", "raw:Janet makes **$18** every day at the farmers' market.", "raw:So she earns $18 per day.",),
        ("81", "-18", "1.8", "180", "raw:#### 81", "raw:The answer is 19.",),
    ),
    Pairs(
        "GSM", "1,450",
        ("1450", "1,450", r"\$1,450", "1450.00", "1{,}450",),
        ("145", "1,45", "14500",),
    ),
    Pairs(
        "CEval", r"\frac{3}{5}",
        (r"\frac{3}{5}", "0.6", r"raw:答案是$\frac{3}{5}$", r"raw:答案：$\frac{3}{5}$", r"raw:故答案为：$\frac{3}{5}$",),
        (r"\frac{5}{3}", r"raw:答案是$\frac{2}{5}$",),
    ),
    Pairs(
        "CARP", "12米",
        ("12", "12米", r"12 \text{米}",),
        ("21", "12千克",),
    ),
    Pairs(
        "misc", r"\frac{\pi}{2} + k\pi, k \in \mathbb{Z}",
        (r"\frac{\pi}{2}+k\pi, k\in\mathbb{Z}", r"\frac{\pi}{2}+k\pi", r"x=\frac{\pi}{2}+k\pi,\ k\in\mathbb Z", r"\frac{\pi}{2} + \pi k, k \in \mathbb{Z}", r"\frac{\pi}{2} + n\pi, n \in \mathbb{Z}",),
        (r"\frac{\pi}{2}", r"k\pi", r"\frac\pi2+2k\pi, k\in\mathbb Z",),
    ),
    Pairs(
        "misc", "x^2 + 2x + C",
        ("x^2+2x+C", "x^2 + 2x + c", "x(x+2)+C", "x^{2}+2x+C",),
        ("x^2-2x+C", "x^2+C",),
    ),
    Pairs(
        "misc", r"\log_2 3",
        (r"\log_2 3", r"\log_{2}{3}", r"\frac{\ln 3}{\ln 2}", r"\log_2(3)", r"\frac{\log 3}{\log 2}",),
        (r"\log_3 2", r"\log_2 5", "3",),
    ),
    Pairs(
        "misc", "5!",
        ("120", "5!",),
        ("5", "24", "12",),
    ),
    Pairs(
        "misc", r"1:30 \text{ PM}",
        ("1:30 PM", "1:30 p.m.", "13:30", r"1:30 \text{ pm}", "1:30",),
        ("1:30 AM", "1:03 PM", "3:10",),
    ),
    Pairs(
        "misc", r"\text{Monday}",
        ("Monday", r"\text{Monday}", "monday",),
        ("Tuesday", r"\text{Sunday}",),
    ),
    Pairs(
        "misc", r"\text{neither}",
        ("neither", r"\text{neither}",),
        ("both", "even",),
    ),
    Pairs(
        "misc", "(3, -2)",
        ("(3,-2)", "x=3, y=-2", r"\left(3,-2\right)", "(3, −2)",),
        ("(-2,3)", "(3,2)", "(-3,-2)",),
    ),
    Pairs(
        "misc", "3x + 2y - 6 = 0",
        ("3x+2y=6", "3x+2y-6=0", r"y=-\frac32x+3", "6x+4y=12",),
        ("3x-2y=6", "3x+2y+6=0", "2x+3y=6",),
    ),
    Pairs(
        "misc", "0.001",
        ("0.001", "10^{-3}", r"\frac{1}{1000}", "1e-3", r"1 \times 10^{-3}", r"0.1\%",),
        ("0.01", "0.002", "-0.001", "0",),
    ),
    Pairs(
        "misc", r"1.23 \times 10^4",
        ("12300", r"1.23 \times 10^4", "1.23e4", "12,300",),
        ("1.23", "123000", "1230",),
    ),
    Pairs(
        "misc", r"\sqrt[3]{2}",
        (r"\sqrt[3]{2}", "2^{1/3}", r"2^{\frac13}",),
        (r"\sqrt2", "2", r"\sqrt[3]{4}", r"3\sqrt2",),
    ),
    Pairs(
        "misc", "|x|",
        ("|x|", r"\lvert x \rvert", r"\left|x\right|",),
        ("x", "-x", "x^2",),
    ),
    Pairs(
        "misc", r"\frac{a+b}{c}",
        (r"\frac{a+b}{c}", "(a+b)/c", r"\frac{a}{c}+\frac{b}{c}", r"\frac{b+a}{c}",),
        (r"a+\frac bc", r"\frac{a-b}{c}", r"\frac{c}{a+b}",),
    ),
    Pairs(
        "misc", r"\cos\theta",
        (r"\cos\theta", r"\cos(\theta)", r"\cos \theta",),
        (r"\sin\theta", r"-\cos\theta",),
    ),
    Pairs(
        "misc", r"\sin^2 x",
        (r"\sin^2 x", r"\sin^2(x)", r"(\sin x)^2", r"1-\cos^2 x", r"\sin^{2}{x}",),
        (r"\sin x", r"\cos^2 x", r"\sin x^2",),
    ),
    Pairs(
        "misc", "xy + yz + zx",
        ("xy+yz+zx", "yz+zx+xy", "xy + xz + yz",),
        ("xyz", "xy+yz", "xy+yz-zx",),
    ),
    Pairs(
        "misc", r"3 \mathrm{i}",
        ("3i", r"3\mathrm{i}", "3 i",),
        ("-3i", "3", "i",),
    ),
    Pairs(
        "misc", r"7 \text{ or } -7",
        (r"\pm 7", "7,-7", r"-7 \text{ or } 7",),
        ("7", "-7",),
    ),
    Pairs(
        "misc", r"\text{At least } 4",
        (r"\text{at least } 4", r"\text{At least }4",),
        (r"\text{at most } 4",),
    ),
    Pairs(
        "misc", "A, C, D",
        ("A,C,D", "ACD", r"A, C, \text{and } D",),
        ("A,C", "A,B,D", "ABCD",),
    ),
    Pairs(
        "misc", "ACD",
        ("ACD", "A, C, D", r"\text{ACD}",),
        ("AC", "ABD",),
    ),
    Pairs(
        "misc", "①③",
        ("①③",),
        ("①②", "③", "①②③",),
    ),
    Pairs(
        "misc", r"6\frac{2}{3}",
        (r"\frac{20}{3}", r"6\frac{2}{3}", r"6 \frac{2}{3}",),
        ("4", r"\frac{12}{3}", "6.23",),
    ),
    Pairs(
        "misc", "11001_2",
        ("11001_2", "11001_{2}", "11001", "25_{10}", "(11001)_2", r"11001_{\text{two}}",),
        ("10011_2", "11001_3", "110012",),
    ),
    Pairs(
        "misc", "8 : 15",
        ("8:15", r"\frac{8}{15}",),
        ("15:8", "8:51",),
    ),
    Pairs(
        "misc", r"2 \mathrm{H}_2 + \mathrm{O}_2 \rightarrow 2 \mathrm{H}_2\mathrm{O}",
        (r"2 \mathrm{H}_2 + \mathrm{O}_2 \rightarrow 2 \mathrm{H}_2\mathrm{O}",),
        (r"\mathrm{H}_2 + \mathrm{O}_2 \rightarrow \mathrm{H}_2\mathrm{O}",),
    ),
    Pairs(
        "misc", r"\frac{d}{dx}",
        (r"\frac{d}{dx}",),
        (r"\frac{d}{dy}",),
    ),
    Pairs(
        "misc", r"p \land q",
        (r"p \land q", r"p\wedge q",),
        (r"p\lor q", "q",),
    ),
    Pairs(
        "misc", r"(A \cup B)^c",
        (r"(A\cup B)^c",),
        (r"(A\cap B)^c", r"A\cup B",),
    ),
    Pairs(
        "misc", r"\lambda = 4",
        ("4", r"\lambda=4",),
        ("-4", r"\lambda=5",),
    ),
    Pairs(
        "misc", r"S = \{1,2\}",
        (r"\{1,2\}", r"S=\{1,2\}", r"\{2,1\}",),
        (r"\{1\}", r"\{1,3\}",),
    ),
    Pairs(
        "misc", r"\frac{3\sqrt{10}}{10}",
        (r"\frac{3}{\sqrt{10}}", r"\frac{3\sqrt{10}}{10}", r"\sqrt{0.9}",),
        (r"\frac{\sqrt{10}}{10}", r"\frac{3\sqrt{5}}{10}",),
    ),
    Pairs(
        "misc", r"\frac{1}{x+1}",
        (r"\frac1{x+1}", "(x+1)^{-1}", "1/(x+1)",),
        (r"\frac1x+1", "1/x+1", r"\frac{1}{x-1}", "x+1",),
    ),
    Pairs(
        "misc", r"2\vec{a} - \vec{b}",
        (r"2\vec{a}-\vec{b}", r"2\vec a - \vec b", r"-\vec{b}+2\vec{a}",),
        (r"2\vec{a}+\vec{b}", r"\vec a-\vec b",),
    ),
    Pairs(
        "misc", r"AB \parallel CD",
        (r"AB \parallel CD",),
        (r"AB\perp CD",),
    ),
    Pairs(
        "misc", r"\triangle ABC",
        (r"\triangle ABC",),
        (r"\triangle ABD",),
    ),
    Pairs(
        "misc", r"75 \mathrm{~km} / \mathrm{h}",
        ("75", "75 km/h", r"75\text{ km/h}",),
        ("57", "75 m/s",),
    ),
    Pairs(
        "misc", r"4 \frac{1}{2} \%",
        (r"4.5\%", r"4\frac12\%", "0.045", "4.5",),
        (r"4\%", r"45\%", r"5.4\%",),
    ),
    Pairs(
        "misc", r"100,000 \text{ people}",
        ("100000", "100,000", r"100{,}000\text{ people}",),
        ("10000", "1,000,000",),
    ),
    Pairs(
        "misc", r"-1 \leq x \leq 1",
        ("[-1,1]", r"-1\le x\le 1", r"x\in[-1,1]", r"|x|\le 1",),
        ("(-1,1)", "[-1,1)", "[0,1]", "|x|<1",),
    ),
    Pairs(
        "misc", r"x \neq 2",
        (r"x\neq 2", r"x\ne2", r"(-\infty,2)\cup(2,\infty)", r"\mathbb{R}\setminus\{2\}",),
        ("x=2", "2", r"x\neq3",),
    ),
    Pairs(
        "misc", r"\mathbb{R}",
        (r"\mathbb{R}", r"(-\infty,\infty)", r"\text{all real numbers}", r"\mathbb R", r"x\in\mathbb{R}",),
        (r"\mathbb{Q}", "0", r"(0,\infty)",),
    ),
    Pairs(
        "misc", r"1 + \frac{1}{1 + \frac{1}{2}}",
        (r"\frac53", r"1 + \frac{1}{1 + \frac{1}{2}}",),
        (r"\frac52", r"\frac35",),
    ),
    Pairs(
        "misc", r"\sum_{k=1}^{n} k^2",
        (r"\sum_{k=1}^n k^2",),
        (r"\sum_{k=1}^n k", r"\frac{n(n+1)}{6}",),
    ),
    Pairs(
        "misc", r"13\text{th}",
        ("13", r"13\text{th}", r"13^{\text{th}}", "13th",),
        ("31", "14th",),
    ),
    Pairs(
        "misc", r"9\text{:}00",
        ("9:00",),
        ("9:30", "19:00",),
    ),
    Pairs(
        "misc", "2024-01-15",
        ("2024-01-15", "January 15, 2024", r"\text{January 15, 2024}",),
        ("2024-01-16", "January 15, 2023",),
    ),
    Pairs(
        "misc", r"$\frac{1}{3}$",
        (r"\frac13", r"0.\overline{3}", "0.333...", "1/3",),
        ("0.3", "3", r"\frac23",),
    ),
    Pairs(
        "outside", "all real numbers",
        (r"\text{all real } x", r"\text{all real values of }x", r"\text{all reals}", r"\mathbb{R}"),
        (r"\text{all real numbers except }2", r"\text{all positive real numbers}"),
    ),
    Pairs(
        "outside", "infinitely many",
        (r"\text{infinite}", r"\text{infinitely many solutions}", "raw:There are infinitely many solutions."),
        (r"\text{finite}", r"\text{finitely many}", "0", r"\text{no solutions}"),
    ),
    Pairs(
        "outside", r"$45^\circ$",
        (r"\frac{\pi}{4}", r"\pi/4", r"\frac{\pi}{4}\text{ rad}", "45"),
        (r"\frac{\pi}{3}", r"-\frac\pi4", r"45\pi"),
    ),
    Pairs(
        "outside", r"$\frac{\pi}{8}$",
        (r"22.5^\circ", r"22.5\text{ degrees}"),
        (r"22^\circ", "22.5", r"-22.5^\circ"),
    ),
    Pairs(
        "outside", r"$\begin{pmatrix} -1 \\ 2 \\ 5 \end{pmatrix}$",
        ("[-1,2,5]^T", r"(-1,2,5)^{\top}", r"\begin{bmatrix}-1&2&5\end{bmatrix}^T",
         r"\begin{pmatrix}-1&2&5\end{pmatrix}^{\mathrm{T}}"),
        ("[1,2,5]^T", "[-1,2,5]^2", r"\begin{bmatrix}-1&5&2\end{bmatrix}^T"),
    ),
    Pairs(
        "outside", r"$\begin{pmatrix}1&2\\3&4\end{pmatrix}$",
        (r"\begin{bmatrix}1&2\\3&4\end{bmatrix}",),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}^T", r"\begin{pmatrix}1&3\\2&4\end{pmatrix}"),
    ),
    Pairs(
        "outside", "A, C, D",
        (r"\text{A, C and D}", r"\text{(A), (C), (D)}", r"\text{A, C, and D}", r"\textbf{A, C, D}", "ACD"),
        (r"\text{A and C}", r"\text{A, B, C and D}", r"\text{(A), (B), (D)}"),
    ),
    Pairs(
        "outside", "$x=1$ 或 $x=-2$",
        (r"x=1\text{ or }x=-2", "1,-2", "raw:答案是 $x=-2$ 或 $x=1$。", "x=1或x=-2"),
        ("x=1", r"x=1\text{ or }x=2", "raw:答案是 $x=2$ 或 $x=1$。"),
    ),
    Pairs("outside", "1或3", ("1,3", r"3 \text{ or } 1", "raw:答:3或1。"), ("1", "13", "1,2")),
    Pairs(
        "outside", r"$2\pi$平方厘米",
        (r"2\pi", r"2\pi\text{ cm}^2", r"2\pi\text{平方厘米}", "raw:答案:$2\\pi$ 平方厘米"),
        (r"\pi", r"2\pi\text{ cm}^3", r"2\pi\text{立方厘米}"),
    ),
    Pairs(
        "outside", "12人",
        ("12", "raw:答:共有12人。", "raw:答:12人。", "raw:因此,一共有 12 人。", "raw:所以一共有12人。"),
        ("raw:答:共有21人。", "raw:答:没有12人。", "raw:答:不是12人。"),
    ),
    Pairs(
        "outside", "the circle",
        (r"\text{circle}", r"\text{a circle}", "raw:Answer: A circle.", r"\text{The circle}"),
        (r"\text{ellipse}", r"\text{semicircle}"),
    ),
    Pairs(
        "outside", r"$k\pi + \frac{\pi}{4}, k \in \mathbb{Z}$",
        (r"x=k\pi+\frac\pi4\ (k\in\mathbf{Z})", r"k\pi+\frac\pi4\ (k\in Z)", r"n\pi+\frac\pi4, n\in \mathrm{Z}"),
        (r"2k\pi+\frac\pi4\ (k\in\mathbf{Z})", r"k\pi+\frac\pi4\ (k\in\mathbf{N})"),
    ),
    Pairs(
        "outside", r"$\overrightarrow{AB} = (3, -1)$",
        (r"\vec{AB}=\langle3,-1\rangle", r"\vec{AB}=(3,-1)", "(3,-1)"),
        (r"\vec{AB}=(-3,1)", "(-1,3)"),
    ),
)  # fmt: skip


def response_of(answer: str) -> str:
    """The response that states the answer."""
    if answer.startswith(_RAW):
        return answer.removeprefix(_RAW)
    return f"So we get \\boxed{{{answer}}}."


def harness_case(rng: random.Random) -> Case:
    """A gold of a public set, and a right or a wrong answer."""
    pairs = rng.choice(PAIRS + SAME_IN_OTHER_WORDS + SYMBOLS + STYLES)
    is_right = rng.random() < 0.5
    answer = rng.choice(pairs.right if is_right else pairs.wrong)
    return Case(
        pipeline="math",
        kind=f"harness: {pairs.style}: {'right' if is_right else 'wrong'}",
        response=response_of(answer),
        reference={"answers": [pairs.gold]},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
        settings={"reference_audit": "report"},
    )
