# ruff: noqa: RUF001 - golds and answers as their authors write them
r"""Golds and answers judged by hand: names that differ in case, a prime or an index, sets and
statements in symbols, formulas of chemistry, and values in the spellings of several countries.

An answer that begins with `raw:` is a whole response, the others stand in `\boxed{}`.
"""

from typing import Final

from tests.fuzz.verdicts.mathematics.pairs import Pairs

SYMBOLS: Final = (
    Pairs(
        "symbols", r"A \cap B \cup C",
        (r"A \cap B \cup C", r"A\cap B\cup C"),
        (r"A \cap C \cup B", r"C \cap B \cup A", r"A \cup B \cap C"),
    ),
    Pairs(
        "symbols", "ACD",
        ("CAD", "A, C, D", "A and C and D", "ADC"),
        ("ACB", "AC", "ABCD"),
    ),
    Pairs(
        "symbols", "CD",
        ("DC", r"\text{CD}"),
        ("CE", "AD"),
    ),
    Pairs(
        "symbols", r"\vec{a}\times\vec{b}",
        (r"-\vec{b}\times\vec{a}", r"-(\vec b\times\vec a)", r"\vec a \times \vec b"),
        (r"\vec b\times\vec a", r"\vec a\cdot\vec b", r"-\vec a\times\vec b"),
    ),
    Pairs(
        "symbols", r"e^{2T}",
        (r"e^{T} \cdot e^T", r"e^T e^{(T)}", r"(e^T)^2"),
        ("e^T", "e^2", "2e^T", "e^{T^2}"),
    ),
    Pairs(
        "symbols", r"A \cup B",
        (r"B \cup A", r"A\cup B", r"(B\cup A)"),
        (r"A \cap B", r"A \cup C", "A", r"A \cup B \cup C"),
    ),
    Pairs(
        "symbols", r"A \cap B",
        (r"B \cap A",),
        (r"A \cup B", r"A \setminus B", "AB"),
    ),
    Pairs(
        "symbols", r"A \cap (B \cup C)",
        (r"(B \cup C) \cap A", r"A\cap(C\cup B)", r"\left(C \cup B\right)\cap A"),
        (r"(A \cap B) \cup C", r"A \cup (B \cap C)", r"A\cap B\cup C", r"A\cap C"),
    ),
    Pairs(
        "symbols", r"A \setminus B",
        ("A - B", r"A\setminus B"),
        (r"B \setminus A", "B - A", r"A \cup B"),
    ),
    Pairs(
        "symbols", r"A \cup B \cup C",
        (r"C\cup(B\cup A)", r"(A\cup C)\cup B"),
        (r"A\cup B", r"A\cap B\cap C"),
    ),
    Pairs(
        "symbols", r"A' \cap B",
        (r"B \cap A'",),
        (r"A \cap B", r"A \cap B'", r"A'\cup B"),
    ),
    Pairs(
        "symbols", r"A^c \cap B",
        (r"B\cap A^c",),
        (r"A\cap B", r"A \cap B^c"),
    ),
    Pairs(
        "symbols", r"p \land q",
        (r"q \land p", r"q\wedge p"),
        (r"p \lor q", r"p\to q", r"\lnot p \land q"),
    ),
    Pairs(
        "symbols", r"\lnot p \lor q",
        (r"q \lor \neg p", r"\neg p\vee q"),
        (r"p \lor q", r"\lnot(p\lor q)", r"\lnot q\lor p"),
    ),
    Pairs(
        "symbols", r"p \to q",
        (r"p\rightarrow q", r"p \implies q"),
        (r"q \to p", r"\lnot q \to \lnot p", r"p \leftrightarrow q", r"\lnot p \to q"),
    ),
    Pairs(
        "symbols", r"p \leftrightarrow q",
        (r"q\leftrightarrow p", r"q \iff p"),
        (r"p \to q", r"q\to p"),
    ),
    Pairs(
        "symbols", "A - B",
        ("A-B",),
        ("B-A", "A+B"),
    ),
    Pairs(
        "symbols", "a - b",
        ("-b+a",),
        ("b-a",),
    ),
    Pairs(
        "symbols", r"\pi(R^2-r^2)",
        (r"\pi R^2 - \pi r^2", r"\pi(R-r)(R+r)"),
        ("0", r"\pi(r^2-R^2)", r"\pi(R-r)^2"),
    ),
    Pairs(
        "symbols", "A'",
        ("A'",),
        ("A", "B'"),
    ),
    Pairs(
        "symbols", "f'(x) = 2x",
        ("2x", "f'(x)=2x"),
        ("f(x)=2x", "f'(x)=x^2"),
    ),
    Pairs(
        "symbols", "y' = 2x",
        ("2x", r"\frac{dy}{dx}=2x", "y'=2x"),
        ("y=2x", "y''=2x"),
    ),
    Pairs(
        "symbols", r"\frac{dy}{dx} = 3x^2",
        ("3x^2", "y'=3x^2"),
        ("x^3", "6x"),
    ),
    Pairs(
        "symbols", r"\frac{\partial f}{\partial x}",
        (r"\frac{\partial f}{\partial x}",),
        (r"\frac{\partial f}{\partial y}", "0"),
    ),
    Pairs(
        "symbols", r"F = \frac{GMm}{r^2}",
        (r"\frac{GMm}{r^2}", r"F=G\frac{Mm}{r^2}", r"F = \frac{G M m}{r^{2}}"),
        (r"F=\frac{Gm^2}{r^2}", r"\frac{Gmm}{r^2}", r"\frac{GMm}{r}"),
    ),
    Pairs(
        "symbols", "P = I^2 R",
        ("I^2R", "P=RI^2", r"P = I \cdot I R"),
        ("P=IR", "P=I^3R", "P = I R^2"),
    ),
    Pairs(
        "symbols", "V = IR",
        ("IR", "V=RI"),
        ("V=I^2R", "V=I/R", "V=R/I"),
    ),
    Pairs(
        "symbols", r"\frac{V}{I}",
        ("V/I",),
        (r"\frac{I}{V}", r"\frac{V}{I^2}"),
    ),
    Pairs(
        "symbols", "A^T A",
        ("A^TA",),
        ("A^2", "A"),
    ),
    Pairs(
        "symbols", "XIV",
        ("XIV",),
        ("XVI", "XIII"),
    ),
    Pairs(
        "symbols", "IV",
        ("IV",),
        ("VI", "V"),
    ),
    Pairs(
        "symbols", "A'B + AB'",
        ("AB' + A'B", "B'A + BA'"),
        ("AB + AB'", "A+B", "A'B' + AB"),
    ),
    Pairs(
        "symbols", "x'",
        ("x'",),
        ("x", "x''"),
    ),
    Pairs(
        "symbols", "N",
        ("N", r"\text{N}"),
        ("M", "2N", "n"),
    ),
    Pairs(
        "symbols", "n(n+1)/2",
        ("N(N+1)/2", r"\frac{n^2+n}{2}"),
        ("n(n-1)/2",),
    ),
    Pairs(
        "symbols", r"\Delta x",
        (r"\Delta x",),
        (r"\delta x", "x"),
    ),
    Pairs(
        "symbols", "T^2 = k a^3",
        ("T^2=ka^3",),
        ("T^3=ka^2",),
    ),
    Pairs(
        "symbols", "Cx + c",
        ("c + Cx",),
        ("cx + c", "C(x+1)"),
    ),
    Pairs(
        "symbols", "e^{Et}",
        ("e^{tE}",),
        ("E^{et}",),
    ),
    Pairs(
        "forms", "|x|",
        (r"\max(x,-x)", r"\max\{x, -x\}", r"\max(-x, x)", r"\sqrt{x^2}", r"\lvert x \rvert"),
        (r"\max(x,0)", r"\min(x,-x)", "x", "-x"),
    ),
    Pairs(
        "forms", r"\begin{cases} x & x \ge 0 \\ -x & x < 0 \end{cases}",
        (r"\max(x,-x)", "|x|"),
        (r"\min(x,-x)", r"\max(x,0)"),
    ),
    Pairs(
        "forms", r"2\operatorname{cis}(60^\circ)",
        (r"2\operatorname{cis} 60^\circ", r"1+\sqrt{3}i", r"2(\cos 60^\circ + i\sin 60^\circ)", r"2e^{i\pi/3}", r"2\operatorname{cis}\frac{\pi}{3}",
         r"2\text{cis}(\pi/3)"),
        (r"2\operatorname{cis} 30^\circ", r"1-\sqrt3 i", r"\operatorname{cis} 60^\circ"),
    ),
    Pairs(
        "forms", r"\operatorname{cis} \frac{\pi}{4}",
        (r"\frac{\sqrt2}{2}+\frac{\sqrt2}{2}i", r"e^{i\pi/4}", r"\cos\frac\pi4+i\sin\frac\pi4"),
        (r"e^{-i\pi/4}", r"\frac{\sqrt2}{2}"),
    ),
    Pairs(
        "forms", r"1+\sqrt{3}i",
        (r"2\operatorname{cis} 60^\circ", r"2\operatorname{cis}\left(\frac{\pi}{3}\right)"),
        (r"2\operatorname{cis} 120^\circ",),
    ),
    Pairs(
        "forms", r"[1,3)\cup(3,5]",
        (r"1 \le x \le 5, x \ne 3", r"1 \le x \le 5, x \neq 3", r"1 \leq x \leq 5 \text{ and } x \neq 3", r"\{x \mid 1 \le x \le 5, x \ne 3\}",
         r"x \in [1,5], x \ne 3", r"[1,5] \setminus \{3\}"),
        (r"1 \le x \le 5", r"1 < x \le 5, x \ne 3", r"1 \le x \le 5, x \ne 2", "[1,5]", r"1 \le x \le 5, x = 3"),
    ),
    Pairs(
        "forms", r"1 \le x \le 5, x \ne 3",
        (r"[1,3)\cup(3,5]", r"[1,3) \cup (3,5]", r"1\le x<3 \text{ or } 3<x\le5", r"1 \le x < 3, 3 < x \le 5"),
        ("[1,5]", r"1 \le x \le 5", r"[1,3]\cup[3,5]"),
    ),
    Pairs(
        "forms", r"\{-1,0,1,2\}",
        (r"\{x \in \mathbb{Z} \mid -1 \le x \le 2\}", r"\{x \in \mathbb{Z} : -2 < x < 3\}", r"\{x \mid -1 \le x \le 2, x \in \mathbb{Z}\}",
         r"\{-1, 0, 1, 2\}", "-1,0,1,2"),
        (r"\{x \in \mathbb{Z} \mid -1 < x \le 2\}", r"\{x \in \mathbb{R} \mid -1 \le x \le 2\}", r"\{x \in \mathbb{N} \mid -1 \le x \le 2\}",
         "[-1,2]", r"\{x \mid -1\le x\le 2\}"),
    ),
    Pairs(
        "forms", r"\{x \in \mathbb{Z} \mid -1 \le x \le 2\}",
        (r"\{-1,0,1,2\}", r"\{x \in \mathbb{Z} \mid -2 < x < 3\}"),
        (r"\{-1,0,1\}", "[-1,2]"),
    ),
    Pairs(
        "forms", r"\{1,2,3\}",
        (r"\{x \in \mathbb{N}^* \mid x < 4\}", r"\{x \in \mathbb{Z}^+ \mid x \le 3\}"),
        (r"\{x \in \mathbb{Z}^+ \mid x \le 4\}", r"\{x \in \mathbb{Z} \mid x \le 3\}"),
    ),
    Pairs(
        "forms", r"\lfloor x \rfloor",
        ("[x]", r"\left\lfloor x\right\rfloor", r"\operatorname{floor}(x)"),
        (r"\lceil x \rceil", "x"),
    ),
    Pairs(
        "forms", r"\lfloor \sqrt{n} \rfloor",
        (r"[\sqrt{n}]", r"\left[\sqrt n\right]"),
        (r"\lceil\sqrt n\rceil", r"\sqrt n"),
    ),
    Pairs(
        "forms", "1234.56",
        ("1,234.56", r"1\,234.56", "1234.56", "1.234,56", "1 234,56", r"1\ 234.56", "1'234.56"),
        ("1234.65", "123456", "12345.6", "1,234.65"),
    ),
    Pairs(
        "forms", "1000000",
        ("1,000,000", "1.000.000", "1 000 000", "10^6", r"1\times10^6", "1e6", "one million", "1 million", "10^{6}", "100万"),
        ("100000", "10000000", "1.000", "100,000"),
    ),
    Pairs(
        "forms", "3.5",
        ("3,5", "3.50", "7/2", r"3\frac12", "3 1/2", r"\frac{7}{2}", "three and a half"),
        ("3", "35", "3, 5 and 7", "5.3"),
    ),
    Pairs(
        "forms", "25000",
        ("25,000", "25 000", "2.5万", r"2.5 \times 10^4", r"25\,000", "25 thousand"),
        ("2500", "250000", "2.5"),
    ),
    Pairs(
        "forms", "0.05",
        ("5%", r"5\%", "0,05", r"\frac{1}{20}", "5e-2", r"5\times10^{-2}"),
        ("0.5", "5e-3"),
    ),
    Pairs(
        "forms", r"\frac{7}{3}",
        (r"2\frac{1}{3}", "2 1/3", r"2 \frac{1}{3}", r"2+\frac13", r"2.\overline{3}", "2.(3)", "2.333...", r"2.\dot{3}", "7/3"),
        (r"\frac{2}{3}", r"2\cdot\frac13", "2.3", "2/3", "3/7", "21/3"),
    ),
    Pairs(
        "forms", r"-2\frac{1}{3}",
        (r"-\frac73", "-7/3", "-2 1/3"),
        (r"-\frac53", r"\frac73", "-2/3"),
    ),
    Pairs(
        "forms", r"0.\overline{142857}",
        ("1/7", r"\frac17", "0.142857142857..."),
        ("1/6",),
    ),
    Pairs(
        "forms", "0.1666...",
        ("1/6", r"0.1\overline{6}", r"0.1\dot6"),
        ("1/7", "0.16"),
    ),
    Pairs(
        "forms", "6.02e23",
        (r"6.02 \times 10^{23}", r"6.02\cdot10^{23}", "6.02E23", "6.02*10^23", "6.02x10^23", r"6.02\times 10^{23}\text{ mol}^{-1}"),
        (r"6.02\times10^{22}", r"6.2\times10^{23}"),
    ),
    Pairs(
        "forms", r"3.0 \times 10^8",
        ("300000000", "3e8", "300,000,000", r"3 \times 10^{8}", r"3\times10^8\text{ m/s}"),
        ("3e7", r"3\times10^{-8}"),
    ),
    Pairs(
        "forms", "2024-03-05",
        ("March 5, 2024", "5 March 2024", "2024-03-05", "March 5th, 2024", "5th of March 2024", "2024/03/05"),
        ("May 3, 2024", "2024-05-03", "March 6, 2024", "March 2024"),
    ),
    Pairs(
        "forms", "March 5",
        ("March 5th", "5 March", "the 5th of March", "March 5"),
        ("March 6", "May 5", "March"),
    ),
    Pairs(
        "forms", "Tuesday",
        ("tuesday", r"\text{Tuesday}", "a Tuesday", "Tuesday."),
        ("Monday", "Thursday", "Tuesday or Wednesday"),
    ),
    Pairs(
        "forms", r"\$12.50",
        ("12.50", "$12.5", "12.5 dollars", "USD 12.50", "12.50 USD", r"\$12.50", "US$12.50", "1250 cents"),
        ("12.05", "$125", "12.50 euros", "€12.50"),
    ),
    Pairs(
        "forms", "€45",
        ("45", "45 euros", "45€", "€ 45", "EUR 45", "45,00 €", "45 EUR"),
        ("$45", "54", "45 cents"),
    ),
    Pairs(
        "forms", "£3.20",
        ("3.20", "£3.2", "3.2 pounds", "3.20 GBP"),
        ("£2.30", "$3.20"),
    ),
    Pairs(
        "forms", "¥500",
        ("500", "500 yen", "500円", "500元"),
        ("50",),
    ),
    Pairs(
        "forms", "75 cents",
        ("75", "$0.75", "0.75 dollars", "75¢", "75 cents"),
        ("$75", "7.5 cents"),
    ),
    Pairs(
        "forms", "₹1,20,000",
        ("120000", "1,20,000", "₹120000", "1.2 lakh"),
        ("12000", "1,20,00"),
    ),
    Pairs(
        "forms", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
        (r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}", r"\left[\begin{array}{cc} 1 & 2 \\ 3 & 4 \end{array}\right]",
         r"\left(\begin{matrix}1&2\\3&4\end{matrix}\right)", "[[1,2],[3,4]]", r"\begin{pmatrix} 1 & 2\\3&\frac{8}{2}\end{pmatrix}",
         r"A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
        (r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 \\ 4 & 3 \end{pmatrix}",
         r"\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}", "1,2,3,4", r"\begin{pmatrix} 1 & 2 \end{pmatrix}"),
    ),
    Pairs(
        "forms", r"\begin{pmatrix} 3 \\ -1 \end{pmatrix}",
        ("(3,-1)", r"\begin{bmatrix}3\\-1\end{bmatrix}", r"\langle 3,-1\rangle", r"\vec{v} = \begin{pmatrix}3\\-1\end{pmatrix}", "[3, -1]^T",
         "(3,-1)^T", r"3\mathbf{i}-\mathbf{j}"),
        ("(-1,3)", r"\begin{pmatrix}-1\\3\end{pmatrix}", "(3,1)"),
    ),
    Pairs(
        "forms", r"\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}",
        ("-2",),
        ("2", "10", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
    ),
    Pairs(
        "forms", "I_2",
        ("I_2",),
        ("I_3",),
    ),
    Pairs(
        "forms", "1011_2",
        ("1011_2", "1011_{2}", r"1011_{\text{two}}", "1011 (base 2)", "(1011)_2", "0b1011", "1011_{(2)}"),
        ("1101_2", "1011_3", "13", "0b1101"),
    ),
    Pairs(
        "forms", "2F_{16}",
        ("2F", "0x2F", "2f_{16}"),
        ("F2", "2E_{16}", "0x2E"),
    ),
    Pairs(
        "forms", "132_7",
        ("132_{7}", "132", "(132)_7", "132 base seven", r"132_{\text{seven}}"),
        ("231_7", "132_8", "123_7"),
    ),
    Pairs(
        "forms", r"\log_2 3",
        (r"\frac{\ln 3}{\ln 2}", r"\frac{\log 3}{\log 2}", r"\log_{2}{3}", r"\log_2(3)", r"\frac{1}{\log_3 2}", r"\log_{2}(3)",
         r"\frac{\lg 3}{\lg 2}"),
        (r"\log_3 2", r"\ln 3", r"\frac{\ln2}{\ln3}", r"\log 3"),
    ),
    Pairs(
        "forms", r"\log_{10} 5",
        (r"\lg 5", r"\log_{10}(5)", r"1-\log_{10}2", r"1 - \lg 2"),
        (r"\ln 5", r"\log_5 10"),
    ),
    Pairs(
        "forms", r"2\ln 3",
        (r"\ln 9", r"\ln(9)", r"\ln 3^2", r"2\log 3", r"\ln 3 + \ln 3"),
        (r"(\ln 3)^2", r"\ln^2 3", r"\ln 6"),
    ),
    Pairs(
        "forms", "(2,5)",
        ("2 < x < 5", "2<x<5", "x > 2 and x < 5", "between 2 and 5, exclusive", r"x\in(2,5)", "]2,5["),
        ("[2,5]", r"2\le x\le5", "(2,5]", "(5,2)"),
    ),
    Pairs(
        "forms", r"x \ge 3",
        (r"[3,\infty)", r"x \geq 3", "x>=3", r"3 \le x", r"x\geqslant3", r"[3,+\infty)", "x is at least 3", "x is greater than or equal to 3",
         "all real numbers greater than or equal to 3", r"\{x | x \ge 3\}"),
        ("x>3", r"(3,\infty)", r"x \le 3", "3", r"(-\infty,3]"),
    ),
    Pairs(
        "forms", r"(-\infty, 4)",
        ("x<4", "x < 4", r"]-\infty,4[", r"(-\infty;4)", "all real numbers less than 4", r"\{x \in \mathbb{R} : x<4\}"),
        (r"x \le 4", r"(-\infty,4]", "x>4"),
    ),
    Pairs(
        "forms", r"x<-1 \text{ or } x>2",
        (r"(-\infty,-1)\cup(2,\infty)", "x > 2 or x < -1", r"x<-1 \cup x>2", r"x<-1 \lor x>2", r"x \in (-\infty,-1)\cup(2,+\infty)"),
        ("-1<x<2", r"(-\infty,-1]\cup[2,\infty)", "x<-1", "x<-1 and x>2"),
    ),
    Pairs(
        "forms", r"\mathbb{R}",
        (r"(-\infty,\infty)", "all real numbers", r"x\in\mathbb{R}", r"\text{all real numbers}", r"\mathbf{R}", r"(-\infty,+\infty)"),
        (r"\mathbb{Z}", r"(0,\infty)", r"\emptyset"),
    ),
    Pairs(
        "forms", r"\mathbb{R}\setminus\{0\}",
        (r"x\ne0", r"(-\infty,0)\cup(0,\infty)", "all real numbers except 0", r"\{x\in\mathbb{R}\mid x\neq0\}"),
        (r"\mathbb{R}", r"x\ne1", r"(0,\infty)"),
    ),
    Pairs(
        "forms", "H_2O",
        ("H2O", r"\mathrm{H_2O}", r"\ce{H2O}", "H₂O"),
        ("H2O2", "HO2", "H_2O_2"),
    ),
    Pairs(
        "forms", "NaCl",
        (r"\text{NaCl}", r"\mathrm{NaCl}"),
        ("KCl", "NaCl2", "NACL2"),
    ),
    Pairs(
        "forms", "C_6H_{12}O_6",
        ("C6H12O6", r"\ce{C6H12O6}", r"\mathrm{C_6H_{12}O_6}", "C₆H₁₂O₆"),
        ("C6H12O5", "C12H6O6", "C6H6O12"),
    ),
    Pairs(
        "forms", "SO_4^{2-}",
        ("SO4^2-", r"\ce{SO4^2-}", r"\text{SO}_4^{2-}", "SO₄²⁻"),
        ("SO_4^{-}", "SO_3^{2-}", "SO4"),
    ),
    Pairs(
        "forms", "Fe^{3+}",
        ("Fe3+", r"\ce{Fe^3+}", r"\text{Fe}^{3+}", "Fe³⁺"),
        ("Fe^{2+}", "Fe"),
    ),
    Pairs(
        "forms", r"2H_2 + O_2 \rightarrow 2H_2O",
        (r"2H_2 + O_2 \to 2H_2O", r"\ce{2H2 + O2 -> 2H2O}", "2H2 + O2 -> 2H2O", r"O_2 + 2H_2 \rightarrow 2H_2O"),
        (r"H_2+O_2\to H_2O", r"2H_2O\to 2H_2+O_2"),
    ),
    Pairs(
        "forms", "No solution",
        ("no solution", r"\text{no solution}", r"\emptyset", r"\varnothing", "There is no solution", "no solutions", "No real solutions",
         "none exist", "无解", r"\{\}", "there are no solutions", "no such x exists"),
        ("0", "x=0", "infinitely many solutions", "all real numbers"),
    ),
    Pairs(
        "forms", r"\emptyset",
        ("no solution", "∅", r"\{\}", "empty set", "the empty set"),
        (r"\{0\}", "0", r"\{\emptyset\}"),
    ),
    Pairs(
        "forms", "infinitely many",
        ("infinitely many solutions", r"\infty", "infinite", "an infinite number", "infinitely many"),
        ("none", "0", "many", "finitely many"),
    ),
    Pairs(
        "forms", "does not exist",
        ("DNE", "the limit does not exist", r"\text{DNE}", "doesn't exist"),
        ("0", "exists", "1"),
    ),
    Pairs(
        "forms", "undefined",
        ("undefined", r"\text{undefined}", "not defined"),
        ("0", "1"),
    ),
    Pairs(
        "forms", "All of the above",
        ("all of the above", r"\text{All of the above}", "All of the above."),
        ("None of the above", "all of them are wrong", "A"),
    ),
    Pairs(
        "forms", "(D) None of these",
        ("D", "none of these", "(D)", "D. None of these"),
        ("A", "all of these", "(C)"),
    ),
    Pairs(
        "forms", "True",
        ("true", "True", r"\text{True}", "TRUE", "true."),
        ("False", "not true", "untrue"),
    ),
    Pairs(
        "forms", "2^{100}",
        ("2^{100}", "4^{50}", "1024^{10}", "1267650600228229401496703205376"),
        ("2^{99}", "100^2"),
    ),
    Pairs(
        "forms", r"\sqrt[3]{2}",
        ("2^{1/3}", r"\sqrt[3]2", r"2^{\frac13}", r"\frac{2}{\sqrt[3]{4}}"),
        (r"\sqrt2", r"3\sqrt2", "2^{-1/3}", r"\sqrt{2}^3"),
    ),
    Pairs(
        "forms", r"\frac{1+\sqrt5}{2}",
        (r"\frac12+\frac{\sqrt5}{2}", r"(1+\sqrt5)/2", r"0.5(1+\sqrt{5})", r"\frac{\sqrt5+1}{2}", r"\frac{2}{\sqrt5-1}"),
        (r"\frac{1-\sqrt5}{2}", r"1+\frac{\sqrt5}{2}", "1.6"),
    ),
    Pairs(
        "forms", r"\sqrt{2}+\sqrt{3}",
        (r"\sqrt3+\sqrt2", r"\sqrt{5+2\sqrt6}", r"\frac{1}{\sqrt3-\sqrt2}"),
        (r"\sqrt5", r"\sqrt{6}", r"\sqrt3-\sqrt2"),
    ),
    Pairs(
        "forms", "x^{-2}",
        (r"\frac{1}{x^2}", "1/x^2"),
        ("-x^2", "x^2", "-2x"),
    ),
    Pairs(
        "forms", "(x-1)(x+2)",
        ("x^2+x-2", "(x+2)(x-1)", "x^2 + x - 2"),
        ("x^2-x-2", "(x+1)(x-2)", "x^2+x+2"),
    ),
    Pairs(
        "forms", r"\frac{x+1}{x-1}",
        ("(x+1)/(x-1)", r"1+\frac{2}{x-1}", r"-\frac{x+1}{1-x}"),
        (r"\frac{x-1}{x+1}", r"\frac{x+1}{1-x}", "x+1/x-1"),
    ),
    Pairs(
        "forms", r"\sin^2 x",
        (r"1-\cos^2x", r"(\sin x)^2", r"\frac{1-\cos 2x}{2}", r"\sin(x)^2"),
        (r"\sin x^2", r"\cos^2x", r"\sin 2x"),
    ),
    Pairs(
        "forms", r"\tan^{-1}(2)",
        (r"\arctan 2", r"\arctan(2)", r"\operatorname{arctan} 2"),
        (r"\frac{1}{\tan 2}", r"\tan 2", r"\arctan\frac12"),
    ),
    Pairs(
        "forms", "e^{2x}",
        ("(e^x)^2", r"\exp(2x)", r"\mathrm{e}^{2x}", "e^{x}e^{x}"),
        ("e^{x^2}", "2e^x", "e^x"),
    ),
    Pairs(
        "forms", "5!",
        ("120", r"5\cdot 4!", "5!"),
        ("5", "60", "24"),
    ),
    Pairs(
        "forms", r"\binom{10}{3}",
        ("120", r"\frac{10!}{3!7!}", "10C3", "C_{10}^3", r"{10 \choose 3}", "C(10,3)"),
        (r"\binom{10}{4}", "720", "30"),
    ),
    Pairs(
        "forms", "2, 3, 5, 7",
        ("2,3,5,7", "7,5,3,2", "2, 3, 5, and 7", "2;3;5;7", r"\{2,3,5,7\}", "2 3 5 7", "2、3、5、7", "2，3，5，7", "x = 2, 3, 5, 7"),
        ("2,3,5", "2,3,5,7,11", "2,3,5,9"),
    ),
    Pairs(
        "forms", "x = 1, y = 2",
        ("(1,2)", "y=2, x=1", "x=1 and y=2", r"\begin{cases}x=1\\y=2\end{cases}", "x = 1; y = 2", r"x=1\quad y=2"),
        ("(2,1)", "x=2,y=1", "x=1", "y=2"),
    ),
    Pairs(
        "forms", "(1,2),(3,4)",
        ("(3,4),(1,2)", r"\{(1,2),(3,4)\}", "(1,2) and (3,4)", "(x,y)=(1,2),(3,4)", r"(1,2)\text{ or }(3,4)"),
        ("(1,2)", "(2,1),(4,3)", "(1,4),(3,2)", "1,2,3,4"),
    ),
    Pairs(
        "forms", r"\pm 3",
        ("3,-3", "-3,3", r"x=\pm3", "+3 and -3", r"\{-3,3\}", "3 or -3", "x = 3 or x = -3"),
        ("3", "-3", r"\pm 4", "3,3"),
    ),
    Pairs(
        "forms", r"2 \pm \sqrt{3}",
        (r"2+\sqrt3, 2-\sqrt3", r"2-\sqrt3,2+\sqrt3", r"x = 2 \pm \sqrt{3}", r"\{2+\sqrt3,2-\sqrt3\}"),
        (r"2+\sqrt3", r"-2\pm\sqrt3", r"3\pm\sqrt2"),
    ),
    Pairs(
        "forms", "12.5%",
        ("12.5%", r"12.5\%", "0.125", "1/8", "12.5 percent", "12,5 %", "12½%"),
        ("1.25%", "12.5‰", "0.0125"),
    ),
    Pairs(
        "forms", "3:2",
        ("3:2", "3 : 2", "3 to 2", "6:4", "3/2", "1.5:1", "1.5"),
        ("2:3", "3:4", "2/3"),
    ),
    Pairs(
        "forms", "2:30 pm",
        ("14:30", "2:30 PM", "2:30 p.m.", "2:30 in the afternoon"),
        ("2:30 am", "2:03 pm", "15:30"),
    ),
    Pairs(
        "forms", "1 hour 30 minutes",
        ("1.5 hours", "90 minutes", "1 h 30 min", "1.5 h", "one and a half hours", "1 hr 30 min"),
        ("1 hour", "130 minutes", "30 minutes", "1 hour 3 minutes"),
    ),
    Pairs(
        "forms", r"45^\circ",
        ("45", "45 degrees", r"\frac{\pi}{4}", "45°", r"45^{\circ}", r"\angle A = 45^\circ"),
        ("54", "135", r"\frac{\pi}{3}"),
    ),
    Pairs(
        "forms", r"9.8 \text{ m/s}^2",
        ("9.8", "9.8 m/s²", r"9.8\,\mathrm{m\,s^{-2}}", "9.8 m/s^2", "9.80 m/s^2", "9.8 N/kg", "9.8 meters per second squared"),
        ("9.8 m/s", "8.9", "9.8 km/s^2"),
    ),
    Pairs(
        "forms", r"5 \text{ km}",
        ("5 km", "5000 m", "5 kilometers", "5 kilometres", "5km", "5 千米", "5公里"),
        ("5 m", "500 m", "5 miles"),
    ),
    Pairs(
        "forms", r"20^\circ\text{C}",
        ("20", "20°C", "20 degrees Celsius", "20 ℃"),
        ("68", "20°F", "-20"),
    ),
    Pairs(
        "forms", r"100\pi \text{ cm}^2",
        (r"100\pi", r"100 \pi\ \text{cm}^2"),
        ("100", "314", r"10\pi", r"100\pi cm^3"),
    ),
    Pairs(
        "forms", r"2.5 \text{ L}",
        ("2.5 liters", "2500 mL", "2.5 L", "2500 ml", "2.5 litres", "2.5"),
        ("25 L", "2.5 mL", "250 mL"),
    ),
    Pairs(
        "forms", "twenty-one",
        ("21", "twenty one", "Twenty-one"),
        ("12", "20", "twenty"),
    ),
    Pairs(
        "forms", "one hundred and five",
        ("105", "one hundred five"),
        ("150", "15", "1005"),
    ),
    Pairs(
        "forms", "3/4",
        ("three quarters", "three-fourths", "0.75", "75%", r"\frac34", "three fourths"),
        ("4/3", "three", "one quarter"),
    ),
    Pairs(
        "forms", "5",
        ("5", "5.0", "raw:La réponse est $5$.", "raw:La respuesta es 5.", "raw:Die Antwort ist 5.", "raw:La risposta è 5.", "raw:A resposta é 5.",
         "raw:Ответ: 5", "raw:答案是 5。", "raw:答えは5です。", "raw:답: 5", "raw:الإجابة هي 5"),
        ("raw:La réponse est 6.", "raw:Ответ: 6"),
    ),
    Pairs(
        "forms", "Paris",
        ("Paris", r"\text{Paris}", "paris", "PARIS"),
        ("London", "Not Paris"),
    ),
    Pairs(
        "forms", "y = 2x + 3",
        ("y=2x+3", "2x - y + 3 = 0", "y - 3 = 2x", "2x+3", "y = 3 + 2x", "f(x)=2x+3"),
        ("y=3x+2", "y=2x-3", "x=2y+3"),
    ),
    Pairs(
        "forms", "x^2 + y^2 = 25",
        ("y^2+x^2=25", "x^2+y^2-25=0", "x^2 + y^2 = 5^2", "2x^2+2y^2=50"),
        ("x^2+y^2=5", "x^2-y^2=25", "x^2+y^2+25=0"),
    ),
    Pairs(
        "forms", "(x-1)^2+(y+2)^2=9",
        ("x^2+y^2-2x+4y-4=0", "(y+2)^2+(x-1)^2=9"),
        ("(x+1)^2+(y-2)^2=9", "(x-1)^2+(y+2)^2=3"),
    ),
    Pairs(
        "forms", r"\frac{x^2}{4}+\frac{y^2}{9}=1",
        ("9x^2+4y^2=36", r"\frac{y^2}{9}+\frac{x^2}{4}=1"),
        (r"\frac{x^2}{9}+\frac{y^2}{4}=1", "4x^2+9y^2=36"),
    ),
    Pairs(
        "forms", "f(x) = x^2 - 1",
        ("x^2-1", "f(x)=(x-1)(x+1)", "y=x^2-1"),
        ("x^2+1", "f(x)=1-x^2"),
    ),
    Pairs(
        "forms", r"f^{-1}(x) = \frac{x-3}{2}",
        (r"\frac{x-3}{2}", r"f^{-1}(x)=\frac{x}{2}-\frac32", "0.5x-1.5"),
        ("2x+3", r"\frac{x+3}{2}"),
    ),
    Pairs(
        "forms", "a_n = 3n - 1",
        ("3n-1", "a_n=3n-1", "a_n = 2 + 3(n-1)", r"\{3n-1\}"),
        ("3n+1", "a_n=3n", "n-1"),
    ),
    Pairs(
        "forms", "x^2 + C",
        ("x^2+C", "x^2+c", "x^2 + K", "C+x^2"),
        ("x^2", "2x+C", "x^3+C"),
    ),
    Pairs(
        "forms", r"\frac{\pi}{6} + 2k\pi, k \in \mathbb{Z}",
        (r"\frac{\pi}{6}+2n\pi, n\in\mathbb{Z}", r"x = \frac{\pi}{6} + 2k\pi \ (k \in \mathbb{Z})", r"\frac\pi6+2\pi k"),
        (r"\frac\pi6+k\pi", r"\frac\pi3+2k\pi", r"\frac\pi6"),
    ),
    Pairs(
        "forms", r"\vec{a} - \vec{b}",
        (r"-\vec b+\vec a", r"\overrightarrow{a}-\overrightarrow{b}"),
        (r"\vec b-\vec a", r"\vec a+\vec b"),
    ),
    Pairs(
        "forms", "P = 0.25",
        ("0.25", "1/4", "25%", "P=1/4", r"\frac14"),
        ("0.75", "2.5"),
    ),
    Pairs(
        "forms", r"\frac{3}{10} = 30\%",
        ("0.3", r"30\%", "3/10"),
        ("0.03", "3%"),
    ),
    Pairs(
        "forms", r"O(n \log n)",
        (r"O(n\log n)", r"\mathcal{O}(n \log n)", r"O(n \lg n)"),
        ("O(n)", "O(n^2)", r"O(\log n)", r"O(n^2\log n)"),
    ),
    Pairs(
        "forms", "ABCD",
        (r"\text{ABCD}", "ABCD"),
        ("ABDC", "ACBD"),
    ),
    Pairs(
        "forms", "1/2 < x < 3/4",
        ("(0.5,0.75)", r"\frac12<x<\frac34", "0.5 < x < 0.75"),
        (r"\frac12\le x\le\frac34", "1/2<x<1"),
    ),
    Pairs(
        "forms", "yes",
        ("Yes.", "Yes, it is", r"\text{Yes}"),
        ("no", "maybe", "not yes"),
    ),
    Pairs(
        "forms", "-3",
        ("−3", "-3.0", "- 3", "negative three", "minus 3", "–3", r"-\frac{6}{2}", r"\text{-}3", "(-3)", "-(3)"),
        ("3", "--3", "-(-3)"),
    ),
    Pairs(
        "forms", "0.333",
        ("0.333", "333/1000"),
        ("0.34", "0.3"),
    ),
    Pairs(
        "forms", "10^{-3}",
        ("0.001", "1e-3", "1/1000", r"\frac{1}{1000}"),
        ("-1000", "1000", "0.01", "10^3"),
    ),
    Pairs(
        "forms", r"7 \text{ or } 8",
        ("7,8", "8 or 7", "7 and 8", r"\{7,8\}"),
        ("7", "8", "78"),
    ),
    Pairs(
        "forms", "1 : 2 : 3",
        ("1:2:3", "2:4:6", "1 : 2 : 3"),
        ("3:2:1", "1:2", "1:3:2"),
    ),
    Pairs(
        "forms", "A",
        ("A", "(A)", r"\text{A}", "A.", "Option A", "choice A", r"\boxed{A}"),
        ("B", "AB", "a)b"),
    ),
    Pairs(
        "forms", "B, D",
        ("BD", "B and D", "D, B", "B,D", r"\text{B and D}"),
        ("B", "B, C", "BCD"),
    ),
    Pairs(
        "forms", r"\angle A = 30^\circ, \angle B = 60^\circ",
        (r"A=30^\circ, B=60^\circ", r"30^\circ, 60^\circ"),
        (r"\angle A=60^\circ,\angle B=30^\circ", r"30^\circ"),
    ),
    Pairs(
        "forms", "z = 3 - 4i",
        ("3-4i", "-4i+3", r"z=3-4\mathrm{i}", "3 - 4i"),
        ("3+4i", "-3+4i", "4-3i"),
    ),
    Pairs(
        "forms", "|z| = 5",
        ("5", "|z|=5"),
        ("-5", "25"),
    ),
    Pairs(
        "plain", r"\hat{p} = 0.3",
        ("0.3",),
        ("p=0.4",),
    ),
    Pairs(
        "plain", r"\bar{x}",
        (r"\bar{x}", r"\bar x"),
        ("x", r"\hat{x}", r"\tilde{x}"),
    ),
    Pairs(
        "plain", r"\mathbb{R}^3",
        (r"\mathbb{R}^{3}",),
        (r"\mathbb{R}^2", r"\mathbb{R}"),
    ),
    Pairs(
        "plain", r"\mathbb{Z}_6",
        (r"\mathbb{Z}_6", r"\mathbb{Z}_{6}"),
        (r"\mathbb{Z}_5", r"\mathbb{Z}"),
    ),
    Pairs(
        "plain", "S_4",
        ("S_4", "S_{4}"),
        ("A_4", "S_3", "S^4"),
    ),
    Pairs(
        "plain", r"\text{GL}_2(\mathbb{R})",
        (r"\text{GL}_2(\mathbb{R})",),
        (r"\text{SL}_2(\mathbb{R})", r"\text{GL}_3(\mathbb{R})"),
    ),
    Pairs(
        "plain", r"f \circ g",
        (r"f\circ g",),
        (r"g \circ f", "fg", "f+g"),
    ),
    Pairs(
        "plain", "f(g(x))",
        ("f(g(x))",),
        ("g(f(x))", "f(x)g(x)"),
    ),
    Pairs(
        "plain", r"\sin(x)\cos(y)",
        (r"\cos y\sin x", r"\sin x \cos y"),
        (r"\sin y\cos x", r"\sin(xy)"),
    ),
    Pairs(
        "plain", r"\log_3 5",
        (r"\frac{\ln5}{\ln3}",),
        (r"\log_5 3", r"\log 15", "3^5"),
    ),
    Pairs(
        "plain", "a^{b^c}",
        ("a^{(b^c)}",),
        ("(a^b)^c", "a^{bc}"),
    ),
    Pairs(
        "plain", r"\sqrt{a+b}",
        ("(a+b)^{1/2}",),
        (r"\sqrt a+\sqrt b", r"\sqrt{ab}"),
    ),
    Pairs(
        "plain", r"\frac{a}{b+c}",
        ("a/(b+c)",),
        ("a/b+c", r"\frac{a}{b}+\frac{a}{c}"),
    ),
    Pairs(
        "plain", r"\frac{1}{2}x",
        ("x/2", "0.5x"),
        ("1/(2x)", r"\frac{1}{2x}", "2x"),
    ),
    Pairs(
        "plain", "-x^2",
        ("-(x^2)",),
        ("(-x)^2", "x^2"),
    ),
    Pairs(
        "plain", "(-2)^3",
        ("-8",),
        ("8", "-6"),
    ),
    Pairs(
        "plain", "-2^4",
        ("-16",),
        ("16", "-8"),
    ),
    Pairs(
        "plain", "|a-b|",
        ("|b-a|", r"\sqrt{(a-b)^2}"),
        ("a-b", "|a|-|b|", "|a+b|"),
    ),
    Pairs(
        "plain", r"\|v\|",
        (r"\|v\|", r"\lVert v\rVert"),
        ("v",),
    ),
    Pairs(
        "plain", r"\vec{AB}",
        (r"\overrightarrow{AB}",),
        (r"\overrightarrow{BA}", r"\vec{AC}"),
    ),
    Pairs(
        "plain", "(2,-3,1)",
        (r"\langle2,-3,1\rangle", "(2,-3,1)^T"),
        ("(2,3,1)", "(-3,2,1)", "(2,-3)", "2-3+1"),
    ),
    Pairs(
        "plain", r"x=2 \text{ or } x=-3",
        ("2,-3", "x=-3,2"),
        ("x=2", "x=-2 or x=3", "(2,-3)x"),
    ),
    Pairs(
        "plain", "x=2, y=-3",
        ("(2,-3)",),
        ("(-3,2)", "x=-3,y=2", "-1"),
    ),
    Pairs(
        "plain", "3x+2y=12",
        ("6x+4y=24", "y=6-1.5x", "2y=12-3x"),
        ("3x-2y=12", "3x+2y=11", "2x+3y=12"),
    ),
    Pairs(
        "plain", "y-3=2(x-1)",
        ("y=2x+1", "2x-y+1=0"),
        ("y=2x-1", "y=2x+3"),
    ),
    Pairs(
        "plain", "x^2-5x+6=0",
        ("x^2=5x-6", "(x-2)(x-3)=0"),
        ("x^2+5x+6=0", "x^2-5x-6=0"),
    ),
    Pairs(
        "plain", "x<3",
        (r"(-\infty,3)", "3>x"),
        ("x>3", r"x\le3", r"(3,\infty)"),
    ),
    Pairs(
        "plain", "-3<x<3",
        ("|x|<3", "(-3,3)"),
        ("|x|>3", r"|x|\le3", "x<3"),
    ),
    Pairs(
        "plain", "|x|>3",
        (r"x<-3 \text{ or } x>3", r"(-\infty,-3)\cup(3,\infty)"),
        ("-3<x<3", "x>3"),
    ),
    Pairs(
        "plain", r"x \neq 2",
        (r"\mathbb{R}\setminus\{2\}", r"(-\infty,2)\cup(2,\infty)"),
        ("x=2", r"x\ne-2"),
    ),
    Pairs(
        "plain", r"\{1,3,5\}",
        ("1,3,5", r"\{5,3,1\}"),
        (r"\{1,3\}", r"\{1,3,5,7\}", "(1,3,5)"),
    ),
    Pairs(
        "plain", r"\{(1,2),(2,3)\}",
        ("(1,2),(2,3)",),
        (r"\{(2,1),(3,2)\}", r"\{1,2,3\}"),
    ),
    Pairs(
        "plain", r"(1,2)\cup(2,3)",
        (r"(2,3)\cup(1,2)",),
        ("(1,3)", r"[1,2]\cup[2,3]", r"(1,2)\cap(2,3)"),
    ),
    Pairs(
        "plain", r"[0,2\pi)",
        (r"0\le\theta<2\pi",),
        (r"[0,2\pi]", r"(0,2\pi)", r"[0,\pi)"),
    ),
    Pairs(
        "plain", "12:00",
        ("12:00", "12:00 pm"),
        ("00:12", "12:30"),
    ),
    Pairs(
        "plain", "7:05 am",
        ("7:05", "07:05 AM"),
        ("7:50 am", "7:05 pm"),
    ),
    Pairs(
        "plain", "3 hours",
        ("180 minutes", "3 h", "3"),
        ("3 minutes", "30 hours"),
    ),
    Pairs(
        "plain", "2 ft 6 in",
        ("30 inches", "2.5 ft", "2 feet 6 inches"),
        ("26 inches", "2 ft", "6 ft 2 in"),
    ),
    Pairs(
        "plain", "60 mph",
        ("60 miles per hour", "60", "60 mi/h"),
        ("60 km/h", "6 mph"),
    ),
    Pairs(
        "plain", r"5 \times 10^{-3}",
        ("0.005", "5e-3"),
        ("5000", "0.05", r"5 \times 10^3"),
    ),
    Pairs(
        "plain", "1.0e6",
        ("1000000", "10^6"),
        ("1.0e5", "1"),
    ),
    Pairs(
        "plain", "0.1",
        ("10%", "1/10", ".1", "0,1"),
        ("1%", "0.01", "10"),
    ),
    Pairs(
        "plain", "150%",
        ("1.5", "3/2"),
        ("15%", "0.15", "50%"),
    ),
    Pairs(
        "plain", "5:3",
        ("5/3", "10:6"),
        ("3:5", "5/8"),
    ),
    Pairs(
        "plain", "1/3 : 1/2",
        ("2:3",),
        ("3:2",),
    ),
    Pairs(
        "plain", "3 and 4",
        ("3,4", "4 and 3"),
        ("34", "3", "3.4", "7"),
    ),
    Pairs(
        "plain", "3 or -3",
        (r"\pm3",),
        ("3", "-3"),
    ),
    Pairs(
        "plain", r"3 \pm 2i",
        ("3+2i,3-2i",),
        ("3+2i", r"2\pm3i", r"3\pm2"),
    ),
    Pairs(
        "plain", "i",
        (r"\sqrt{-1}",),
        ("-i", "1", "-1"),
    ),
    Pairs(
        "plain", "-i",
        (r"\frac{1}{i}",),
        ("i", "1"),
    ),
    Pairs(
        "plain", r"e^{i\pi}",
        ("-1",),
        ("1", "i"),
    ),
    Pairs(
        "plain", r"\frac{3+4i}{5}",
        (r"\frac35+\frac45i", "0.6+0.8i"),
        (r"\frac{3-4i}{5}", "1", r"\frac{4+3i}{5}"),
    ),
    Pairs(
        "plain", r"2\pi r h",
        (r"2\pi hr",),
        (r"2\pi r^2h", r"\pi rh"),
    ),
    Pairs(
        "plain", r"\frac{4}{3}\pi r^3",
        (r"\frac{4\pi r^3}{3}",),
        (r"\frac34\pi r^3", r"\frac43\pi r^2", r"4\pi r^2"),
    ),
    Pairs(
        "plain", r"\frac{n!}{k!(n-k)!}",
        (r"\binom nk", r"\binom{n}{k}"),
        (r"\frac{n!}{k!}", r"\binom{k}{n}", r"\frac{n!}{(n-k)!}"),
    ),
    Pairs(
        "plain", r"\sum_{i=1}^{n} i^2",
        (r"\frac{n(n+1)(2n+1)}{6}",),
        (r"\frac{n(n+1)}{2}", r"\sum_{i=1}^{n} i", r"\sum_{i=0}^{n-1} i^2"),
    ),
    Pairs(
        "plain", r"\int_0^1 x^2 dx",
        ("1/3",),
        ("1/2", r"\int_0^1 x dx", r"\int_0^2 x^2 dx"),
    ),
    Pairs(
        "plain", r"\lim_{x \to 0} \frac{\sin x}{x}",
        ("1",),
        ("0", r"\infty"),
    ),
    Pairs(
        "plain", r"\frac{d}{dx} x^3",
        ("3x^2",),
        ("x^3", "3x", "x^2"),
    ),
    Pairs(
        "plain", r"\nabla \cdot \vec{F}",
        (r"\nabla\cdot\vec{F}",),
        (r"\nabla\times\vec{F}", r"\nabla F"),
    ),
    Pairs(
        "plain", r"\begin{pmatrix}1&0\\0&1\end{pmatrix}",
        (r"\begin{bmatrix}1&0\\0&1\end{bmatrix}", "[[1,0],[0,1]]"),
        (r"\begin{pmatrix}0&1\\1&0\end{pmatrix}", "1", r"\begin{pmatrix}1&0\end{pmatrix}"),
    ),
    Pairs(
        "plain", r"\det A = 5",
        ("5",),
        ("-5", "A=4"),
    ),
    Pairs(
        "plain", "A^{-1}",
        ("A^{-1}",),
        ("A", "-A", "A^T"),
    ),
    Pairs(
        "plain", "A^2 - B^2",
        ("A^2-B^2",),
        ("A^2+B^2", "(A-B)^2", "B^2-A^2"),
    ),
    Pairs(
        "plain", "x_1 + x_2",
        ("x_2+x_1",),
        ("x_1-x_2", "x_1", "2x_1", "x_1x_2"),
    ),
    Pairs(
        "plain", "a_{n+1}",
        ("a_{n+1}",),
        ("a_n", "a_n+1", "a_{n-1}"),
    ),
    Pairs(
        "plain", "a_{n+1} = 2a_n + 1",
        ("a_{n+1}=1+2a_n",),
        ("a_n=2a_{n+1}+1", "a_{n+1}=2a_n-1", "a_{n+1}=2a_{n}"),
    ),
    Pairs(
        "plain", "F_{n} = F_{n-1}+F_{n-2}",
        ("F_n=F_{n-2}+F_{n-1}",),
        ("F_n=F_{n-1}-F_{n-2}", "F_n=F_{n-1}"),
    ),
    Pairs(
        "plain", r"\theta",
        (r"\theta",),
        (r"\phi", "0", r"\Theta"),
    ),
    Pairs(
        "plain", r"\alpha + \beta",
        (r"\beta+\alpha",),
        (r"\alpha-\beta", r"\alpha\beta"),
    ),
    Pairs(
        "plain", r"\lambda = 2, 3",
        ("2,3", "3,2"),
        ("2", r"\lambda=2,4"),
    ),
    Pairs(
        "plain", r"\mu = 5, \sigma = 2",
        (r"\mu=5,\sigma=2", "5,2"),
        (r"\mu=2,\sigma=5", "5"),
    ),
    Pairs(
        "plain", r"P(A \cup B) = 0.7",
        ("0.7",),
        ("0.3", r"P(A\cap B)=0.3"),
    ),
    Pairs(
        "plain", "P(A|B)",
        ("P(A|B)", r"P(A \mid B)"),
        ("P(B|A)", "P(A)", r"P(A\cap B)"),
    ),
    Pairs(
        "plain", r"\frac{P(A \cap B)}{P(B)}",
        (r"\frac{P(A\cap B)}{P(B)}",),
        (r"\frac{P(A\cap B)}{P(A)}", "P(A)"),
    ),
    Pairs(
        "plain", "N(0,1)",
        ("N(0,1)", r"\mathcal{N}(0,1)"),
        ("N(1,0)", "N(0,2)"),
    ),
    Pairs(
        "plain", "O(n^2)",
        ("O(n^2)", r"\mathcal{O}(n^{2})"),
        ("O(n)", "O(n^3)", "O(2^n)", r"\Omega(n^2)", "o(n^2)"),
    ),
    Pairs(
        "plain", r"\Theta(n)",
        (r"\Theta(n)",),
        ("O(n)", r"\theta(n)", r"\Omega(n)", r"\Theta(n^2)"),
    ),
    Pairs(
        "plain", "true",
        ("True",),
        ("false",),
    ),
    Pairs(
        "plain", "odd",
        ("Odd", r"\text{odd}"),
        ("even",),
    ),
    Pairs(
        "plain", "isosceles",
        ("isosceles", "Isosceles"),
        ("equilateral", "scalene"),
    ),
    Pairs(
        "plain", "increasing",
        ("Increasing",),
        ("decreasing", "non-increasing", "not increasing"),
    ),
    Pairs(
        "plain", "converges",
        ("converges", "Converges."),
        ("diverges", "does not converge"),
    ),
    Pairs(
        "plain", "linearly independent",
        ("linearly independent",),
        ("linearly dependent", "independent", "not linearly independent"),
    ),
    Pairs(
        "plain", "north",
        ("North",),
        ("south", "northeast"),
    ),
    Pairs(
        "plain", "left",
        ("Left",),
        ("right",),
    ),
    Pairs(
        "plain", "Alice",
        ("Alice",),
        ("Bob", "Alicia", "Not Alice", "Alice and Bob"),
    ),
    Pairs(
        "plain", "Alice and Bob",
        ("Alice and Bob", "Bob and Alice", "Alice, Bob"),
        ("Alice", "Bob", "Alice or Carol"),
    ),
    Pairs(
        "plain", "red, blue",
        ("blue, red", "red and blue"),
        ("red", "blue", "red, green"),
    ),
    Pairs(
        "plain", "knight, knave",
        ("knight, knave",),
        ("knight, knight",),
    ),
    Pairs(
        "plain", "CAT",
        ("CAT",),
        ("ACT", "TAC", "CATS"),
    ),
    Pairs(
        "plain", "ACGT",
        ("ACGT",),
        ("TGCA", "ACTG"),
    ),
    Pairs(
        "plain", "10101",
        ("10101",),
        ("10110", "1010", "21"),
    ),
    Pairs(
        "plain", "0110",
        ("0110",),
        ("1001", "011"),
    ),
    Pairs(
        "plain", "007",
        ("007", "7"),
        ("70",),
    ),
    Pairs(
        "plain", "$1,234",
        ("1234", "$1234"),
        ("$1,243", "$1.234", "1.234"),
    ),
    Pairs(
        "plain", "1,234",
        ("1234",),
        ("1234.1", "12.34", "1.234"),
    ),
    Pairs(
        "plain", "3.14",
        ("3.14",),
        ("3.15", "3.1", "3"),
    ),
    Pairs(
        "plain", r"\pi",
        (r"\pi",),
        ("3", "22/7", "3.14"),
    ),
    Pairs(
        "plain", r"\frac{22}{7}",
        ("22/7", r"3\frac17"),
        (r"\pi", "3.14"),
    ),
    Pairs(
        "plain", r"\sqrt{2}",
        ("2^{0.5}",),
        ("1.4", "2", r"\sqrt[4]{2}"),
    ),
    Pairs(
        "plain", "1.41",
        ("1.41",),
        ("1.4", "1.42"),
    ),
    Pairs(
        "plain", "1e-10",
        ("10^{-10}",),
        ("0", "1e-9"),
    ),
    Pairs(
        "plain", "0",
        ("0", "0.0"),
        ("1e-10", "0.001", "none"),
    ),
    Pairs(
        "languages", "5",
        ("raw:Ответ: 5", "raw:答えは5です。", "raw:답: 5", "raw:정답: 5입니다.", "raw:الإجابة هي 5", "raw:الإجابة النهائية هي 5.", 'raw:Считаем.\n\nОтвет: $5$.',
         "raw:よって、答えは $5$ です。", "raw:したがって答え：5"),
        ("raw:Ответ: 6", "raw:答えは6です。", "raw:답: 6", "raw:الإجابة هي 6", "raw:Ответ: 5 или 6"),
    ),
)  # fmt: skip
