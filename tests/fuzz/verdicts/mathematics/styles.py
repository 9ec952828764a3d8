# ruff: noqa: RUF001 - golds and answers as their authors write them
r"""Golds and answers judged by hand: the styles of public models on the golds of public sets.

Written without sight of the other batteries: right answers in other notation, and wrong ones that
differ by a sign, a digit, a part, an order, a unit, a bracket, a name, or that hedge, deny, repeat
or guess. An answer that begins with `raw:` is a whole response, the others stand in `\boxed{}`.
"""

from typing import Final

from tests.fuzz.verdicts.mathematics.pairs import Pairs

STYLES: Final = (
    # magnitudes, money, counts
    Pairs(
        "GSM8K", "25000",
        ("25k", "25K", r"\$25k", r"25\text{k}", r"\$25,000", "25 thousand", "raw:So she earns $25k per year.\n\nThe answer is $25k.", "raw:**Final Answer:** 25k", "25{,}000.00"),
        ("25", "2.5k", "250k", "25M", "-25k", "25k \\text{ or } 30k", "25.5k", "25m", "raw:The answer is not 25k."),
    ),
    Pairs(
        "GSM8K", r"\$1,500,000",
        ("1.5M", r"\$1.5M", r"\$1.5 \text{ million}", "1500000", r"\$1500k", "raw:Answer: $1.5M", r"\$1.5\text{M}"),
        (r"\$1.5k", r"\$1.5B", "1.5", r"\$15M", r"\$1.05M", "1.5m^2"),
    ),
    Pairs(
        "GSM8K", r"\$2 billion",
        (r"\$2B", r"2 \times 10^9", r"\$2,000,000,000", r"\$2\text{bn}", r"\$2bn"),
        (r"\$2M", r"\$2", "2", r"\$20B"),
    ),
    Pairs(
        "GSM8K", "3 dozen",
        ("36", "3 dozen", r"36 \text{ eggs}", r"3 \text{ dozen}", "three dozen", r"3\text{ dozen eggs}", "raw:She has 3 dozen eggs.\n#### 36"),
        ("3", "12", "35", r"3 \text{ eggs}", "2 dozen", "30 dozen", "raw:#### 3"),
    ),
    Pairs(
        "GSM8K", "36",
        (r"3 \text{ dozen}", "36 cookies", "three dozen", "3 dozen cookies", "36.0"),
        ("3", "36 dozen", "2 dozen", "half a dozen", "63"),
    ),
    Pairs(
        "GSM8K", "6",
        ("half a dozen", "six", "6 apples", r"\text{half a dozen}"),
        ("a dozen", "half", r"\frac12", "0.5", "6 dozen"),
    ),
    Pairs(
        "GSM8K", "3 decades",
        ("30 years", "3 decades", r"\text{three decades}"),
        ("3 years", "300 years", "30 decades", "3 centuries"),
    ),
    Pairs(
        "GSM8K", "2 weeks",
        ("14 days", "1 fortnight", r"2\text{ weeks}", "two weeks"),
        ("2 days", "14 weeks", "2 months", "7 days"),
    ),
    Pairs(
        "GSM8K", "18",
        ("raw:Janet sells 16 - 3 - 4 = <<16-3-4=9>>9 duck eggs a day.\nShe makes 9 * 2 = $<<9*2=18>>18 every day.\n#### 18", "raw:**$18**", "raw:Therefore, Janet makes **$18** every day at the farmers' market.", r"\$18", "18.00", "raw:The final answer is: $\\boxed{18}$"),
        ("raw:#### 81", "raw:#### 16 - 3 - 4", "raw:The answer is 9 or 18.", "raw:So the answer could be 18 or 26.", "raw:#### 18 19 20", "raw:The answer is 17, not 18."),
    ),
    Pairs(
        "GSM8K", "70000",
        (r"\$70,000", "70k", "70,000 dollars", "raw:#### 70,000", "raw:#### $70000", "70 thousand"),
        ("7000", "700,000", "7k", "70,00", "70.000,5", "195000", "-70000"),
    ),
    Pairs(
        "GSM8K", "5k",
        ("5k", "5 k", r"5 \cdot k", "5000", "k \\cdot 5"),
        ("5", "k", "6k", "5k^2", "50k"),
    ),
    Pairs(
        "MATH", r"2k+1",
        ("2k+1", "1+2k", r"2\cdot k+1"),
        ("2001", "2k-1", "2n", "k+1", "3"),
    ),
    Pairs(
        "GSM8K", "12.50",
        (r"\$12.50", "12.5", r"12\frac{1}{2}", "12 dollars and 50 cents", "raw:Her change is $12.50.\n\n#### 12.50"),
        ("12.05", "1250", "12", "12.51", "-12.50", "125"),
    ),
    Pairs(
        "GSM8K", "20%",
        ("20%", r"20\%", "0.2", "20", r"\frac{1}{5}", "20 percent", "twenty percent"),
        ("2%", "0.02", "80%", "120%", r"\frac{1}{20}", "-20%"),
    ),
    # clock, durations, dates
    Pairs(
        "SAT", "14:30",
        ("14h30", "2:30 PM", "2:30 p.m.", "14:30", "14 h 30", r"14\text{h}30", r"14\text{:}30"),
        ("14h03", "2:30 AM", "14:03", "15h30", "4:30", "14h31", "14.30 hours"),
    ),
    Pairs(
        "SAT", "1 hour 30 minutes",
        ("1h30", "90 min", "1.5 hours", "1h 30m", "1h30min", "1 hr 30 min", r"1\text{ h }30\text{ min}", r"90\text{ minutes}", "one and a half hours", "1h30m", r"1\frac12 \text{ hours}", "1 hour and 30 minutes", "5400 s"),
        ("1h03", "1.3 hours", "30 min", "1 hour", "130 min", "90 hours", "90 s", "2h30", "1h30s", "1h31"),
    ),
    Pairs(
        "SAT", "2h 15m",
        ("2 hours 15 minutes", "135 min", "135 minutes", "2h15", "2.25 hours", r"2\frac{1}{4}\text{ h}", "2h15m", r"2\text{h}\,15\text{m}"),
        ("2h 51m", "2 hours", "15 m", "215 min", "2.15 hours", "2h 15s", "12h 15m", "135 m"),
    ),
    Pairs(
        "SAT", "90 min",
        ("1h30", "1.5 h", "90 minutes", "1 hour 30 minutes", r"\frac{3}{2}\text{ hours}", "90"),
        ("9 min", "1h03", "1.5 min", "90 h", "1h 9m", "90 s"),
    ),
    Pairs(
        "SAT", "1h 20min 30s",
        ("1 hour 20 minutes 30 seconds", "4830 s", "1h20m30s", "80.5 min"),
        ("1h 20min", "1h 30min 20s", "4800 s", "4830 min"),
    ),
    Pairs(
        "dates", "March 5, 2024",
        ("2024年3月5日", "5 March 2024", "2024-03-05", "March 5th, 2024", "Mar 5, 2024", "5th of March 2024", "2024/3/5", r"\text{March 5, 2024}", "Tuesday, March 5, 2024", "5-Mar-2024", "2024.3.5", "5. März 2024", "le 5 mars 2024", "5 de marzo de 2024", "March 5 2024", "raw:The answer is March 5, 2024.", "raw:**Answer:** Tuesday, 5 March 2024"),
        ("2024年5月3日", "May 3, 2024", "March 6, 2024", "March 5, 2023", "2024-05-03", "March 15, 2024", "Wednesday, March 5, 2024", "2024年3月15日", "March 2024", "raw:The answer is not March 5, 2024.", "March 5 or March 6, 2024", "5 May 2024", "5 de mayo de 2024"),
    ),
    Pairs(
        "dates", "2024年3月5日",
        ("March 5, 2024", "2024年03月05日", "2024-3-5", "3月5日", "2024 年 3 月 5 日", "5 March 2024"),
        ("2024年5月3日", "2023年3月5日", "3月6日", "2024-5-3", "2024年3月"),
    ),
    Pairs(
        "dates", "December 25",
        ("25 December", "12月25日", "Dec. 25", "25th December", "December 25th", "the 25th of December", "25/12/2023", "12/25/2023"),
        ("December 24", "25 November", "12/25", "24/12/2023", "December 52", "11月25日"),
    ),
    Pairs(
        "dates", "25/12/2021",
        ("December 25, 2021", "12/25/2021", "2021-12-25", "25.12.2021", "25 Dec 2021"),
        ("24/12/2021", "December 12, 2025", "25/11/2021", "25/12/2022", "November 25, 2021"),
    ),
    Pairs(
        "dates", "Friday",
        ("friday", r"\text{Friday}", "Fri", "raw:The answer is **Friday**."),
        ("Thursday", "Friday or Saturday", "not Friday", "Saturday", "raw:It isn't Friday."),
    ),
    # chemistry
    Pairs(
        "SciBench", r"\ce{NaCl}",
        ("NaCl", r"\text{NaCl}", r"\mathrm{NaCl}", r"\mathrm{Na}\mathrm{Cl}", r"\text{Na}\text{Cl}", r"\rm NaCl", r"\mathrm{Na\,Cl}", "raw:The compound is NaCl.\nAnswer: NaCl"),
        ("KCl", r"\ce{NaBr}", r"\ce{NaCl2}", "NaCI", "ClNa_2", r"\text{Na}", "nacl2", "NACL2"),
    ),
    Pairs(
        "SciBench", r"\text{H}_2\text{O}",
        (r"\ce{H2O}", "H2O", "H_2O", "H₂O", r"\mathrm{H_2O}", r"\mathrm{H}_2\mathrm{O}", r"H_{2}O", r"\text{H}_{2}\text{O}", r"\text{H$_2$O}", r"\textbf{H}_2\textbf{O}"),
        (r"\ce{H2O2}", "H_2", r"\text{H}_3\text{O}", "HO_2", "D_2O", r"\text{HO}", "H_2O, O_2"),
    ),
    Pairs(
        "SciBench", "CO_2",
        (r"\ce{CO2}", "CO2", r"\text{CO}_2", r"\mathrm{C}\mathrm{O}_2", "CO₂", r"\text{CO}_{2}"),
        ("CO", "C_2O", r"\ce{CO3}", "Co_2", r"\ce{SO2}", "CO^2"),
    ),
    Pairs(
        "SciBench", r"\ce{Fe^3+}",
        (r"\text{Fe}^{3+}", "Fe^{3+}", r"\mathrm{Fe}^{3+}", r"\ce{Fe^{3+}}", "Fe³⁺"),
        (r"\ce{Fe^2+}", "Fe^{3-}", "Fe", r"\text{Fe}_3", r"\text{Fe}^{2+}"),
    ),
    Pairs(
        "SciBench", r"\ce{2H2 + O2 -> 2H2O}",
        (r"2\text{H}_2 + \text{O}_2 \rightarrow 2\text{H}_2\text{O}", "O2 + 2H2 -> 2H2O", r"2H_2 + O_2 \to 2H_2O"),
        ("H2 + O2 -> H2O", "2H2O -> 2H2 + O2", "2H2 + O2 -> H2O2", r"2H_2 + 2O_2 \to 2H_2O"),
    ),
    Pairs(
        "SciBench", r"\ce{Na}",
        ("Na", r"\text{Na}", r"\mathrm{Na}", r"\textbf{Na}"),
        ("K", "NaCl", "N", r"\ce{Mg}", "a"),
    ),
    Pairs(
        "SciBench", r"\text{Ca(OH)}_2",
        (r"\ce{Ca(OH)2}", "Ca(OH)2", r"\mathrm{Ca(OH)_2}", r"\mathrm{Ca}(\mathrm{OH})_2"),
        (r"\ce{CaOH2}", r"\ce{Ca(OH)}", r"\ce{CaO}", r"\ce{Mg(OH)2}"),
    ),
    Pairs(
        "SciBench", r"\text{C}_6\text{H}_{12}\text{O}_6",
        (r"\ce{C6H12O6}", "C6H12O6", "C_6H_{12}O_6", r"\mathrm{C_6H_{12}O_6}", "C₆H₁₂O₆"),
        (r"\ce{C6H12O5}", r"\ce{C6H6O12}", r"\ce{C12H22O11}", "C_6H_12"),
    ),
    Pairs(
        "SciBench", r"\text{H}_2\text{C}_2\text{O}_4",
        (r"\ce{H2C2O4}", "H2C2O4", "H_2C_2O_4", r"\mathrm{H_2C_2O_4}"),
        (r"\ce{H2CO3}", "H_2C_2O_2", r"\text{H}_2\text{C}_2", r"\text{H}\binom{2}{2}\text{O}_4"),
    ),
    # vectors in another typeface
    Pairs(
        "OlympiadBench", r"\vec{a} + 2\vec{b}",
        (r"\mathbf{a} + 2\mathbf{b}", r"2\vec b + \vec a", r"\boldsymbol{a}+2\boldsymbol{b}", r"\overrightarrow{a}+2\overrightarrow{b}", r"\bm{a}+2\bm{b}", r"\vec{a}+2\,\vec{b}"),
        (r"\mathbf{a} - 2\mathbf{b}", r"2\mathbf{a} + \mathbf{b}", r"\mathbf{a} + \mathbf{b}", r"\mathbf{a} + 2\mathbf{c}", r"\vec a - 2 \vec b", r"\mathbf{A}+2\mathbf{B}", r"\mathbf{a} + 2b"),
    ),
    Pairs(
        "OlympiadBench", r"\frac{1}{2}\mathbf{a} - \frac{1}{3}\mathbf{b}",
        (r"\frac12\vec a-\frac13\vec b", r"\frac{1}{2}\overrightarrow{a}-\frac{1}{3}\overrightarrow{b}", r"-\frac13\boldsymbol b+\frac12\boldsymbol a", r"\frac{3\vec a-2\vec b}{6}"),
        (r"\frac12\vec a+\frac13\vec b", r"\frac13\vec a-\frac12\vec b", r"\frac12\vec b-\frac13\vec a", r"\frac12\vec a"),
    ),
    Pairs(
        "OlympiadBench", r"\vec a",
        (r"\mathbf{a}", r"\overrightarrow{a}", r"\boldsymbol{a}", r"\vec{a}", r"\mathbf a"),
        (r"\vec b", r"\mathbf{b}", r"-\mathbf{a}", r"2\mathbf{a}", r"\mathbf{A}", r"|\vec a|", r"|\mathbf{a}|"),
    ),
    Pairs(
        "OlympiadBench", r"\vec{F} = m\vec{a}",
        (r"\mathbf{F} = m\mathbf{a}", r"\boldsymbol{F}=m\boldsymbol{a}"),
        (r"\mathbf{F} = -m\mathbf{a}", r"\mathbf{F} = m\mathbf{v}", r"\mathbf{a} = m\mathbf{F}"),
    ),
    # equations times a constant
    Pairs(
        "CARP", "x^2-5x+6=0",
        ("2x^2-10x+12=0", "x^2 - 5x + 6 = 0", "-x^2+5x-6=0", "x^2+6=5x", "0 = x^2-5x+6", "(x-2)(x-3)=0", r"\frac12x^2-\frac52x+3=0", "x^2=5x-6"),
        ("x^2+5x+6=0", "2x^2-10x+6=0", "x^2-5x-6=0", "x^2-5x+6", "x^2-6x+5=0", "x=2, x=3", "x^2-5x+6=1", "(x-2)^2(x-3)=0", "x(x^2-5x+6)=0"),
    ),
    Pairs(
        "CARP", "3x - 4y + 5 = 0",
        ("6x-8y+10=0", r"y=\frac{3x+5}{4}", "4y - 3x = 5", "-3x+4y-5=0", r"y = \frac34x+\frac54", "3x-4y=-5", "0.75x-y+1.25=0"),
        ("3x+4y+5=0", "3x-4y-5=0", "4x-3y+5=0", "6x-8y+5=0", "3x-4y+5=1", r"y=\frac{4x+5}{3}"),
    ),
    Pairs(
        "CARP", "x^2 + y^2 = 25",
        ("x^2+y^2-25=0", "2x^2+2y^2=50", "y^2+x^2=5^2", r"\frac{x^2}{25}+\frac{y^2}{25}=1"),
        ("x^2-y^2=25", "x^2+y^2=5", "x^2+y^2=24", "x+y=5", "(x-1)^2+y^2=25"),
    ),
    Pairs(
        "CARP", r"\frac{x^2}{4} + \frac{y^2}{3} = 1",
        ("3x^2+4y^2=12", r"\frac{y^2}{3}+\frac{x^2}{4}=1", "3x^2+4y^2-12=0", r"\frac{x^2}{2^2}+\frac{y^2}{(\sqrt3)^2}=1"),
        (r"\frac{x^2}{3}+\frac{y^2}{4}=1", r"\frac{x^2}{4}-\frac{y^2}{3}=1", "4x^2+3y^2=12", r"\frac{x^2}{4}+\frac{y^2}{3}=2", "3x^2+4y^2=1"),
    ),
    Pairs(
        "CARP", "y = 2x - 3",
        ("2x-y-3=0", "y=-3+2x", "y+3=2x", "4x-2y=6", "2x - 3", "y-1=2(x-2)"),
        ("y=2x+3", "y=-2x-3", "y=3x-2", "x=2y-3", "2x-y=-3"),
    ),
    Pairs(
        "MATH", "x^2 = 4y",
        ("4y=x^2", r"y=\frac{x^2}{4}", "x^2-4y=0", r"y = \frac14 x^2"),
        ("y^2=4x", "x^2=-4y", "x^2=2y", "y=4x^2", "x^2=4"),
    ),
    # names and case
    Pairs(
        "MATH", "A",
        ("A", r"\text{A}", "(A)", r"\textbf{(A)}", "Option A", "raw:The answer is A."),
        ("a", "B", "AB", "not A", "A or B", r"\alpha"),
    ),
    Pairs(
        "MATH", "a",
        ("a", r"\text{a}", "$a$"),
        ("A", "b", "2a", "-a", "a^2", r"\alpha"),
    ),
    Pairs(
        "Minerva", "R",
        ("R", "$R$"),
        ("r", "2R", "R^2", "-R"),
    ),
    Pairs(
        "Minerva", "2r",
        ("2r", r"2 \cdot r", "r+r"),
        ("2R", "r", "3r", "r^2", "-2r"),
    ),
    Pairs(
        "Minerva", r"\frac{GMm}{r}",
        (r"GMm/r", r"\frac{G M m}{r}", r"\frac{GmM}{r}", r"GMmr^{-1}"),
        (r"\frac{GMm}{r^2}", r"-\frac{GMm}{r}", r"\frac{GM}{r}", r"\frac{Gm}{r}", r"\frac{GMm}{2r}", r"\frac{GMM}{r}"),
    ),
    Pairs(
        "Minerva", r"\frac{1}{2} m v^2",
        (r"\frac{mv^2}{2}", "0.5mv^2", r"mv^2/2", r"\frac{1}{2}mv^{2}"),
        ("mv^2", r"\frac12mv", r"\frac12m^2v", r"-\frac{1}{2}mv^2", r"\frac12 m u^2", r"\frac{mv^2}{4}"),
    ),
    Pairs(
        "Minerva", "v_0",
        ("v_0", "v_{0}", r"v_{\text{0}}"),
        ("v", "v_1", "2v_0", "V_0", "0"),
    ),
    # ordered sequences
    Pairs(
        "logic", "C, A, B",
        ("C, A, B", r"C, A, \text{ and } B", r"\text{C, A, B}", "C,A,B"),
        ("A, B, C", "B, A, C", "C, B, A", "C, A", "A, C, B", "C, A, B, D"),
    ),
    Pairs(
        "logic", "A, B, C",
        ("C, B, A", "ABC", r"\text{A, B and C}", "A and B and C"),
        ("A, B", "A, B, D", "A, B, C, D", "A"),
    ),
    Pairs(
        "logic", "Mercury, Venus, Earth (in order)",
        ("Mercury, Venus, Earth", r"\text{Mercury, Venus, Earth}", "Mercury, Venus, and Earth", r"\text{Mercury} \to \text{Venus} \to \text{Earth}", "raw:The answer is Mercury, Venus, Earth."),
        ("Venus, Mercury, Earth", "Earth, Venus, Mercury", "Mercury, Venus", "Mercury, Venus, Mars", "Mercury, Venus, Earth, Mars"),
    ),
    Pairs(
        "logic", "3, 1, 2 in that order",
        ("3, 1, 2", "3,1,2", "(3, 1, 2)", r"3 \to 1 \to 2", "3, 1, 2 in that order"),
        ("1, 2, 3", "2, 1, 3", "3, 2, 1", "3, 1", "3, 1, 2, 4"),
    ),
    Pairs(
        "logic", "Tom, Jack, Mary",
        ("Mary, Tom, Jack", r"\text{Tom, Jack and Mary}", "Tom, Jack, Mary"),
        ("Tom, Jack", "Tom, Jack, Anna", "Tom", "Tom, Jack, Mary, Anna", "Tom or Jack"),
    ),
    Pairs(
        "logic", r"A \to B \to C",
        (r"A \rightarrow B \rightarrow C", "A → B → C", "A -> B -> C", "A, B, C"),
        ("C, B, A", r"A \to C \to B", r"A \to B", r"C \to B \to A"),
    ),
    Pairs(
        "logic", "4 and 9, respectively",
        ("4 and 9", "4, 9", "4 and 9, respectively", "(4, 9)"),
        ("9 and 4", "9, 4", "4", "4 and 6", "9 and 4, respectively"),
    ),
    Pairs(
        "logic", "first Anna, then Ben, then Carl",
        ("Anna, Ben, Carl", r"\text{Anna, then Ben, then Carl}", "first Anna, then Ben, then Carl"),
        ("Ben, Anna, Carl", "Carl, Ben, Anna", "first Ben, then Anna, then Carl", "Anna, Ben"),
    ),
    # fractions, roots, decimals
    Pairs(
        "MATH", r"\frac{3}{8}",
        ("3/8", "0.375", r"\dfrac{3}{8}", r"\tfrac38", r"\frac{6}{16}", ".375", r"\left(\frac{3}{8}\right)", r"37.5\%", "raw:The probability is $\\frac{3}{8}$."),
        (r"\frac{8}{3}", r"\frac{3}{7}", r"\frac{5}{8}", "-3/8", "0.38", "0.357", "3:8 or 5:8", r"1-\frac{3}{8}", "38"),
    ),
    Pairs(
        "MATH", r"-\frac{2}{3}",
        (r"\frac{-2}{3}", r"\frac{2}{-3}", "-2/3", r"- \dfrac{2}{3}", r"-0.\overline{6}", r"−\frac{2}{3}"),
        (r"\frac{2}{3}", r"-\frac{3}{2}", r"-\frac{2}{5}", r"\pm\frac{2}{3}", "-0.6", "-0.67", "-23"),
    ),
    Pairs(
        "MATH", r"2\sqrt{3}",
        (r"\sqrt{12}", r"2 \cdot \sqrt{3}", r"2\sqrt3", r"\frac{6}{\sqrt{3}}", "2√3", "2*sqrt(3)", r"\sqrt{4 \cdot 3}", r"2 \times 3^{1/2}", r"12^{0.5}"),
        (r"3\sqrt{2}", r"2\sqrt{2}", r"-2\sqrt{3}", r"\sqrt{6}", "23", r"\pm 2\sqrt{3}", r"2\sqrt[3]{3}", "3.46", r"2+\sqrt3", "2"),
    ),
    Pairs(
        "MATH", r"\frac{\sqrt{5}-1}{2}",
        (r"\frac{-1+\sqrt{5}}{2}", r"(\sqrt5-1)/2", r"\frac{\sqrt5}{2}-\frac12", r"\frac{2}{1+\sqrt{5}}", r"\dfrac{\sqrt{5} - 1}{2}"),
        (r"\frac{\sqrt{5}+1}{2}", r"\frac{1-\sqrt{5}}{2}", r"\sqrt5-\frac12", r"\frac{\sqrt{5-1}}{2}", r"\frac{\pm\sqrt{5}-1}{2}", r"\frac{\sqrt{5}-1}{4}"),
    ),
    Pairs(
        "MATH", r"3\frac{1}{4}",
        (r"\frac{13}{4}", "3.25", "3 1/4", r"3 + \frac14", "13/4", r"3\,\frac{1}{4}"),
        (r"\frac{3}{4}", "3/4", r"\frac{31}{4}", "-3.25", "3", r"4\frac13"),
    ),
    Pairs(
        "MATH", "0.1",
        (r"\frac{1}{10}", "1/10", "0.10", ".1", "10^{-1}", r"10\%"),
        ("0.01", "-0.1", "1", "0.11", "10", r"1\%"),
    ),
    Pairs(
        "MATH", r"0.\overline{27}",
        (r"\frac{3}{11}", r"0.\dot{2}\dot{7}", "3/11", "0.(27)"),
        ("0.27", r"0.2\overline{7}", r"\frac{11}{3}", r"\frac{27}{100}", r"0.\overline{72}", "0.27..."),
    ),
    Pairs(
        "MATH", r"\sqrt[3]{2}",
        ("2^{1/3}", r"2^{\frac{1}{3}}", "∛2", r"\sqrt[3] 2", r"\root 3 \of 2"),
        (r"\sqrt{2}", r"3\sqrt{2}", r"\sqrt[3]{3}", "2^3", r"\sqrt[2]{3}", "2/3"),
    ),
    Pairs(
        "MATH", "1000000",
        ("10^6", "1,000,000", r"1{,}000{,}000", "one million", "1 million", "1e6", r"10^{6}", "1M"),
        ("100000", "10^7", "10^5", "1,000,0000", "1e5", "1 billion", "106"),
    ),
    Pairs(
        "MATH", "2^{10}",
        ("1024", r"2^{10}", "1,024", "4^5", r"32^2"),
        ("210", "2^9", "20", "10^2", "1025", "2^{-10}", "2^1 0"),
    ),
    Pairs(
        "AIME", "204",
        ("204", r"\textbf{204}", "204.", "raw:Therefore $m+n = 200+4 = \\boxed{204}$.", "raw:**204**", "raw:</think>\n\nThe answer is \\(\\boxed{204}\\).", "raw:<think>maybe 205</think>\n\\boxed{204}"),
        ("024", "240", "2040", "-204", "203", "raw:\\boxed{203} or \\boxed{204}", "raw:I could not determine it. My guess: 201, 202, 203 or 204", "raw:<think>\\boxed{204}", "20 4"),
    ),
    Pairs(
        "AIME", "025",
        ("25", "025", r"\boxed{25}", "raw:ANSWER: 025"),
        ("250", "52", "0.25", "205", "025 or 026"),
    ),
    Pairs(
        "AIME", "73",
        ("raw:Thus, the answer is $\\boxed{73}$.\n\nLet me double-check: $73 = 64 + 9$. Yes.\n\n$\\boxed{73}$", "raw:The final answer is $\\boxed{73}$. I hope it is correct.", "73"),
        ("raw:$\\boxed{73}$ is wrong; the correct one is $\\boxed{37}$.", "raw:not $\\boxed{73}$", "37", "730", "raw:$\\boxed{7}$ and $\\boxed{3}$", "7, 3"),
    ),
    # tuples, points, intervals
    Pairs(
        "MATH", r"\left(3, \frac{\pi}{2}\right)",
        (r"(3,\pi/2)", r"(3, \frac{\pi}{2})", r"\left( 3, \dfrac{\pi}{2} \right)", r"(3, 0.5\pi)", r"(r,\theta)=(3,\frac{\pi}{2})"),
        (r"(\frac{\pi}{2}, 3)", r"(3, -\frac{\pi}{2})", r"(-3, \frac{\pi}{2})", r"[3, \frac{\pi}{2}]", "3", r"(3, \pi)", r"(3, 2)"),
    ),
    Pairs(
        "MATH", "(-1, 4)",
        ("(-1,4)", r"\left(-1,\,4\right)", "x=-1, y=4", "(−1, 4)", "(x,y) = (-1, 4)", r"\begin{pmatrix}-1\\4\end{pmatrix}"),
        ("(4,-1)", "(1,4)", "(-1,-4)", "[-1,4]", "(-1, 4, 0)", "(-1)", "-1", "[-1,4)", "(-1,4) or (4,-1)", "(-14)"),
    ),
    Pairs(
        "MATH", "[2, 5)",
        (r"2 \le x < 5", r"\left[2,5\right)", r"x \in [2,5)", r"\{x \mid 2 \le x < 5\}", r"2\leq x<5", r"5 > x \geq 2"),
        ("(2,5]", "(2,5)", "[2,5]", "[2,6)", r"2 < x < 5", r"2 \le x \le 5", "[-2,5)", "[5,2)", "2, 5"),
    ),
    Pairs(
        "MATH", r"(-\infty, -3) \cup (1, \infty)",
        (r"x < -3 \text{ or } x > 1", r"(1,\infty)\cup(-\infty,-3)", r"(-\infty,-3)\cup(1,+\infty)", r"x \in (-\infty,-3)\cup(1,\infty)", r"x<-3, x>1", "(-∞, -3) ∪ (1, ∞)", r"\{x \mid x<-3 \text{ or } x>1\}"),
        (r"(-\infty,-3]\cup[1,\infty)", r"(-3,1)", r"-3<x<1", r"(-\infty,-3)\cap(1,\infty)", r"(-\infty,-3)", r"(-\infty,3)\cup(1,\infty)", r"x<-3 \text{ and } x<1", r"(-\infty,-1)\cup(3,\infty)"),
    ),
    Pairs(
        "MATH", r"(-\infty, 4]",
        (r"x \le 4", r"x \leq 4", r"\left(-\infty,4\right]", r"4 \ge x", r"\{x : x \le 4\}", r"]-\infty, 4]"),
        (r"x < 4", r"(-\infty,4)", r"[4,\infty)", r"x \ge 4", r"(-\infty,-4]", r"[-\infty, 5]", "4"),
    ),
    Pairs(
        "MATH", r"\mathbb{R}",
        (r"(-\infty,\infty)", r"\text{all real numbers}", r"x \in \mathbb{R}", r"\text{all reals}", "ℝ"),
        (r"\mathbb{Q}", r"(0,\infty)", r"\emptyset", r"\mathbb{C}", r"\mathbb{R}\setminus\{0\}", r"[0,\infty)", "R^2"),
    ),
    Pairs(
        "MATH", r"\{1, 3, 5\}",
        ("1, 3, 5", "{5, 3, 1}", r"\{5,1,3\}", r"1,3 \text{ and } 5", r"\left\{1,3,5\right\}", "x=1, x=3, x=5", "x = 1, 3, 5"),
        (r"\{1,3\}", r"\{1,3,5,7\}", "1", "135", r"\{1,3,6\}", r"\{-1,3,5\}", "1 or 3", r"\{1,3,5\} \text{ or } \{1,3\}"),
    ),
    Pairs(
        "MATH", "-2, 7",
        ("7, -2", r"x=-2 \text{ or } x=7", r"\{-2,7\}", "-2,7", r"7 \text{ and } -2", r"x_1=-2,\ x_2=7", "raw:So $x=-2$ or $x=7$."),
        ("2, 7", "-2, -7", "-2", "7", "-27", "-2, 7, 0", "2, -7", "-2 < x < 7"),
    ),
    Pairs(
        "MATH", r"1 \pm \sqrt{5}",
        (r"1+\sqrt{5}, 1-\sqrt{5}", r"x = 1 \pm \sqrt5", r"1-\sqrt5 \text{ and } 1+\sqrt5", r"\{1-\sqrt5, 1+\sqrt5\}", r"\frac{2\pm 2\sqrt5}{2}", r"\frac{2\pm\sqrt{20}}{2}"),
        (r"1+\sqrt5", r"1-\sqrt5", r"-1\pm\sqrt5", r"1\pm\sqrt{3}", r"5\pm\sqrt1", r"\pm\sqrt5", r"\frac{1\pm\sqrt5}{2}"),
    ),
    Pairs(
        "OlympiadBench", "(1,2,3), (3,2,1)",
        ("(3,2,1),(1,2,3)", r"\{(1,2,3),(3,2,1)\}", r"(x,y,z)=(1,2,3) \text{ or } (3,2,1)", r"(1,2,3) \text{ and } (3,2,1)"),
        ("(1,2,3)", "(1,3,2),(3,2,1)", "(1,2,3),(3,1,2)", "(1,2,3),(3,2,1),(2,2,2)", "1,2,3", "(1,2,3), (1,2,3)"),
    ),
    Pairs(
        "OlympiadBench", "$f(x)=2x+1$ or $f(x)=-x$",
        ("f(x)=2x+1, f(x)=-x", r"f(x)=-x \text{ or } f(x)=2x+1", "f(x)=-x, 2x+1"),
        ("f(x)=2x+1", "f(x)=-x", "f(x)=2x-1, f(x)=-x", "f(x)=2x+1, f(x)=x"),
    ),
    Pairs(
        "OlympiadBench", r"$\frac{n(n-1)}{2}$",
        (r"\binom{n}{2}", r"\frac{n^2-n}{2}", "n(n-1)/2", r"\frac12n(n-1)", "{n \\choose 2}"),
        (r"\frac{n(n+1)}{2}", r"\binom{n}{3}", r"\frac{n(n-1)}{4}", "n(n-1)", r"\frac{n(n-2)}{2}", r"\binom{2}{n}", r"\binom{n-1}{2}"),
    ),
    Pairs(
        "OlympiadBench", "$2^{n-1}$",
        (r"\frac{2^n}{2}", "2^{n - 1}", "2^n/2", r"\frac{1}{2}\cdot 2^n"),
        ("2^n", "2^{n+1}", "2n-1", "2^n-1", "n^2-1", "2^{1-n}"),
    ),
    Pairs(
        "OlympiadBench", "$n=4k+1$",
        ("4k+1", "n=4k+1", "n = 1+4k"),
        ("4k-1", "4k", "n=4k+3", "2k+1", "4001", "n=4"),
    ),
    # units
    Pairs(
        "SciBench", r"9.8 \text{ m/s}^2",
        (r"9.8 \mathrm{~m} / \mathrm{s}^2", "9.8", r"9.8\ \text{m s}^{-2}", r"980 \text{ cm/s}^2", r"9.80 \mathrm{m/s^2}", r"9.8\,\mathrm{m\,s^{-2}}"),
        (r"9.8 \text{ m/s}", r"98 \text{ m/s}^2", r"9.8 \text{ km/s}^2", r"-9.8 \text{ m/s}^2", r"8.9\text{ m/s}^2", r"9.8\text{ N}"),
    ),
    Pairs(
        "SciBench", r"6.02 \times 10^{23}",
        ("6.02e23", r"6.02 \cdot 10^{23}", r"6.02\times10^{23} \text{ molecules}", r"602 \times 10^{21}", "6.02*10^23"),
        (r"6.02\times 10^{22}", r"6.02\times10^{-23}", r"6.20\times10^{23}", "6.02", r"-6.02\times 10^{23}", r"6.02\times 23"),
    ),
    Pairs(
        "SciBench", r"273 \text{ K}",
        ("273", r"273\,\mathrm{K}", "273 K", r"273 \text{ kelvin}"),
        (r"273^\circ\text{C}", "237 K", "-273 K", "273000", "273 J", r"273^{\circ}F"),
    ),
    Pairs(
        "SciBench", r"0.025 \text{ mol}",
        ("0.025", r"25 \text{ mmol}", r"2.5\times10^{-2}\text{ mol}", r"\frac{1}{40}\text{ mol}"),
        (r"0.25 \text{ mol}", r"0.025\text{ g}", r"25\text{ mol}", r"2.5\times10^{-3}\text{ mol}", "-0.025"),
    ),
    Pairs(
        "SciBench", r"1.6 \text{ kJ}",
        (r"1600 \text{ J}", r"1.6\text{ kJ}", "1.6", r"1.6 \times 10^3 \text{ J}"),
        (r"1.6 \text{ J}", r"16\text{ kJ}", r"1.6\text{ kW}", r"-1.6\text{ kJ}", r"160\text{ J}", r"1.6\text{ MJ}"),
    ),
    Pairs(
        "MATH", "12 \\text{ cm}^2",
        ("12", "12 cm^2", r"12\text{ square centimeters}", r"12\,\mathrm{cm}^2", "12 sq cm", "12 平方厘米"),
        (r"12\text{ cm}", r"12\text{ cm}^3", r"21\text{ cm}^2", r"12\text{ m}^2", r"-12", "12 square meters"),
    ),
    Pairs(
        "MATH", r"60^\circ",
        ("60", r"60^{\circ}", "60 degrees", "60°", r"\frac{\pi}{3}", r"60\text{ deg}"),
        (r"30^\circ", r"120^\circ", r"-60^\circ", r"\frac{\pi}{6}", "6", r"60\text{ rad}", r"600^\circ"),
    ),
    Pairs(
        "MATH", r"\frac{5\pi}{6}",
        (r"5\pi/6", r"\frac{5}{6}\pi", r"150^\circ", r"\dfrac{5\pi}{6}", r"\pi - \frac{\pi}{6}", "5π/6"),
        (r"\frac{\pi}{6}", r"\frac{6\pi}{5}", r"-\frac{5\pi}{6}", r"\frac{5\pi}{3}", r"\frac56", r"15^\circ", "2.6"),
    ),
    Pairs(
        "MATH", r"36\pi",
        (r"36\pi", r"36 \cdot \pi", r"36\pi \text{ cm}^2", "36π", r"\pi \cdot 6^2", r"\pi(6)^2"),
        ("36", r"63\pi", r"\pi", r"36\pi^2", r"-36\pi", "113", r"6\pi", r"36+\pi"),
    ),
    Pairs(
        "MATH", "5 \\text{ hours}",
        ("5", "300 minutes", "5 h", "five hours", r"5\text{ hrs}"),
        ("5 minutes", "50 hours", "5 days", "300", "4 hours"),
    ),
    Pairs(
        "GSM8K", "2.5 hours",
        ("150 minutes", "2 hours 30 minutes", "2h30", "2.5", r"2\frac{1}{2}\text{ hours}", "2 and a half hours", "2h 30min"),
        ("2.5 minutes", "2 hours 50 minutes", "25 hours", "2 hours", "2h05", "230 minutes"),
    ),
    # expressions
    Pairs(
        "MATH", "x^2 - 4x + 3",
        ("(x-1)(x-3)", "3-4x+x^2", "x^{2}-4x+3", "(x-2)^2-1", "(x - 3)(x - 1)"),
        ("x^2+4x+3", "x^2-4x-3", "x^2-3x+4", "(x+1)(x+3)", "x^2-4x", "2x^2-8x+6", "x^2-4x+3=0", "x-4x+3"),
    ),
    Pairs(
        "MATH", "(x+2)(x-5)",
        ("(x-5)(x+2)", "x^2-3x-10", r"\left(x+2\right)\left(x-5\right)", "(x+2) \\cdot (x-5)"),
        ("(x-2)(x+5)", "(x+2)(x+5)", "x^2+3x-10", "(x+2)", "x+2, x-5", "(x+2)(x-5)^2"),
    ),
    Pairs(
        "MATH", r"\frac{x+1}{x-1}",
        (r"(x+1)/(x-1)", r"1+\frac{2}{x-1}", r"\frac{1+x}{x-1}", r"-\frac{x+1}{1-x}"),
        (r"\frac{x-1}{x+1}", r"x+1/x-1", r"\frac{x+1}{1-x}", r"\frac{x+2}{x-1}", r"-\frac{x+1}{x-1}", r"\frac{y+1}{y-1}"),
    ),
    Pairs(
        "MATH", "-6x^2 + 11x - 4",
        ("11x-6x^2-4", "-(6x^2-11x+4)", "-(2x-1)(3x-4)", "(1-2x)(3x-4)", "−6x²+11x−4"),
        ("6x^2-11x+4", "-6x^2-11x-4", "-6x^2+11x+4", "-6x^2+11x", "-6x^2+12x-4", "-6x^3+11x-4"),
    ),
    Pairs(
        "TheoremQA", r"\ln 3 - \ln 2",
        (r"\ln\frac{3}{2}", r"\ln(1.5)", r"\log 3-\log 2 = \ln\frac32", r"-\ln\frac23", r"\ln 3 + \ln\frac12"),
        (r"\ln 2-\ln 3", r"\ln 6", r"\frac{\ln 3}{\ln 2}", r"\ln 1", r"\log_2 3", r"\ln\frac{2}{3}"),
    ),
    Pairs(
        "TheoremQA", r"e^{-2}",
        (r"\frac{1}{e^2}", "1/e^2", r"\exp(-2)", r"\left(\frac1e\right)^2", "e^{- 2}"),
        ("e^2", "-e^2", "e^{-1}", "2^{-e}", "-2e", r"\frac{1}{2e}"),
    ),
    Pairs(
        "TheoremQA", r"\frac{1}{\sqrt{2\pi}}",
        (r"(2\pi)^{-1/2}", r"\frac{\sqrt{2\pi}}{2\pi}", r"1/\sqrt{2\pi}", r"\frac{1}{\sqrt{2}\sqrt{\pi}}"),
        (r"\frac{1}{2\pi}", r"\sqrt{2\pi}", r"\frac{1}{\sqrt{2}\pi}", r"\frac{1}{\sqrt{\pi}}", r"-\frac{1}{\sqrt{2\pi}}"),
    ),
    Pairs(
        "TheoremQA", "True",
        ("true", r"\text{True}", r"\textbf{True}", "raw:The statement is **True**."),
        ("False", "not true", "True or False", r"\text{false}", "raw:It is not true."),
    ),
    Pairs(
        "TheoremQA", "[1, -2, 3]",
        ("[1,-2,3]", "(1,-2,3)", r"\begin{bmatrix}1\\-2\\3\end{bmatrix}", r"\begin{pmatrix}1&-2&3\end{pmatrix}", "1, -2, 3"),
        ("[1,2,3]", "[3,-2,1]", "[-2,1,3]", "[1,-2]", "[1,-2,3,0]", "[-1,2,-3]"),
    ),
    Pairs(
        "TheoremQA", "[[1, 2], [3, 4]]",
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}", "[[1,2],[3,4]]"),
        (r"\begin{pmatrix}1&3\\2&4\end{pmatrix}", r"\begin{pmatrix}1&2\\4&3\end{pmatrix}", "[1,2,3,4]", r"\begin{pmatrix}1&2\\3&-4\end{pmatrix}", "[[1,2]]"),
    ),
    Pairs(
        "MATH", r"\begin{pmatrix} 2 & 0 \\ 0 & -1 \end{pmatrix}",
        (r"\begin{bmatrix} 2 & 0 \\ 0 & -1 \end{bmatrix}", r"\left(\begin{array}{cc}2&0\\0&-1\end{array}\right)", r"\begin{pmatrix}2&0\\0&-1\end{pmatrix}"),
        (r"\begin{pmatrix}-1&0\\0&2\end{pmatrix}", r"\begin{pmatrix}2&0\\0&1\end{pmatrix}", r"\begin{pmatrix}2&0\end{pmatrix}", "2", r"\begin{vmatrix}2&1\\0&-1\end{vmatrix}", r"\begin{pmatrix}2&0\\-1&0\end{pmatrix}"),
    ),
    Pairs(
        "MATH", r"\frac{\pi}{4} - \frac{1}{2}",
        (r"\frac{\pi - 2}{4}", r"\frac{\pi}{4}-0.5", r"\frac14(\pi-2)", r"-\frac12+\frac\pi4"),
        (r"\frac{\pi}{4}+\frac12", r"\frac12-\frac\pi4", r"\frac{\pi-1}{4}", r"\frac{\pi}{2}-\frac14", r"\frac\pi4", r"\frac{\pi-1}{2}"),
    ),
    Pairs(
        "MATH", "3 + 4i",
        ("4i+3", "3+4i", r"3 + 4\mathrm{i}", "z = 3+4i", "(2+i)^2"),
        ("3-4i", "4+3i", "-3+4i", "3+4", "3, 4", "(3, 4i)", "5", "3+4j^2"),
    ),
    Pairs(
        "MATH", r"\cos\theta",
        (r"\cos(\theta)", r"\cos{\theta}", r"\sin(\frac{\pi}{2}-\theta)", "cos θ"),
        (r"\sin\theta", r"-\cos\theta", r"\cos 2\theta", r"\cos^2\theta", r"\theta", r"\sec\theta", r"\cos\phi"),
    ),
    Pairs(
        "MATH", r"\sin 2x",
        (r"\sin(2x)", r"2\sin x\cos x", r"\sin{2x}"),
        (r"2\sin x", r"\sin x", r"\cos 2x", r"\sin^2 x", r"-\sin 2x", r"2\sin x + \cos x"),
    ),
    Pairs(
        "MATH", r"\log_2 5",
        (r"\frac{\ln 5}{\ln 2}", r"\log_{2}{5}", r"\frac{\log 5}{\log 2}", r"\log_2(5)", r"\frac{1}{\log_5 2}"),
        (r"\log_5 2", r"\log 5", r"\log_2 6", r"\ln 5", r"\frac{\ln 2}{\ln 5}", r"\log_{10} 5", "2.3"),
    ),
    Pairs(
        "MATH", "x > 3",
        (r"(3,\infty)", "3 < x", r"x \in (3, +\infty)", r"\{x | x > 3\}", "x>3"),
        (r"x \ge 3", "x < 3", r"[3,\infty)", "3", "x>-3", "x = 3", r"(-\infty, 3)", "y > 2"),
    ),
    Pairs(
        "MATH", r"x \ne 2",
        (r"x \neq 2", r"(-\infty,2)\cup(2,\infty)", r"\mathbb{R}\setminus\{2\}", "all real numbers except 2"),
        ("x = 2", "2", r"x \ne -2", r"\mathbb{R}", "x > 2", r"x \neq 3"),
    ),
    Pairs(
        "MATH", "5:3",
        ("5:3", r"\frac{5}{3}", "5 : 3", "10:6", r"5\text{ to }3", "5/3", r"5\text{:}3"),
        ("3:5", "5:4", "53", "5", "3/5", "5, 3", "8"),
    ),
    Pairs(
        "MATH", "1:2:4",
        ("1:2:4", "2:4:8", "1 : 2 : 4", r"1\colon 2\colon 4"),
        ("4:2:1", "1:2", "1:2:3", "1:4:2", "1, 2, 4"),
    ),
    Pairs(
        "MATH", "1011_2",
        ("1011_2", r"1011_{2}", r"1011_{\text{two}}", "1011", "1011 base 2", r"(1011)_2", "10_{11}"),
        ("1101_2", "11", "1011_3", "101_2", "1111_2"),
    ),
    # words, yes/no, no solution
    Pairs(
        "OlympiadBench", r"\text{No}",
        ("No", "no", r"\text{No}", r"\text{No, it is not.}", "raw:The answer is **No**.", "raw:No, such a function does not exist.\n\nFinal Answer: No"),
        ("Yes", "Not no", "No or yes", r"\text{Yes}", "raw:The answer is yes."),
    ),
    Pairs(
        "OlympiadBench", r"\text{no solution}",
        (r"\emptyset", r"\text{No solutions}", r"\text{There is no solution}", r"\varnothing", r"\{\}", r"\text{no real solutions}", "none"),
        ("0", r"\{0\}", "infinitely many", "1", r"\{\emptyset\}", r"\text{one solution}", r"\text{no, solution } 2"),
    ),
    Pairs(
        "MATH", "even",
        (r"\text{even}", "Even", r"\textbf{even}", "raw:The function is even.\nAnswer: even"),
        ("odd", "neither", "not even", "even or odd", r"\text{odd}"),
    ),
    Pairs(
        "SAT", "parabola",
        (r"\text{parabola}", "a parabola", "Parabola", r"\text{a parabola}"),
        ("hyperbola", "ellipse", "not a parabola", "parabola or ellipse", "circle"),
    ),
    Pairs(
        "GaoKao", "充分不必要条件",
        ("充分不必要条件", r"\text{充分不必要条件}", "raw:答案：充分不必要条件"),
        ("必要不充分条件", "充要条件", "既不充分也不必要条件", "充分条件"),
    ),
    Pairs(
        "GaoKao", r"$\left(0,\frac{1}{2}\right]$",
        (r"(0,\frac12]", r"0<x\le\frac12", r"\left(0,0.5\right]", r"x\in(0,\frac{1}{2}]", "raw:故答案为:$(0,\\frac{1}{2}]$."),
        (r"[0,\frac12]", r"(0,\frac12)", r"(0,2]", r"(-\frac12,0]", r"[0,\frac12)", r"\frac12"),
    ),
    Pairs(
        "GaoKao", r"$\{x|-1<x<2\}$",
        ("(-1,2)", "-1<x<2", r"\{x\mid -1<x<2\}", r"x\in(-1,2)", r"\left\{x \middle| -1 < x < 2\right\}", "{x|-1<x<2}"),
        (r"\{x|-1\le x<2\}", "(-2,1)", "[-1,2]", r"\{x|-1<x\}", r"\{-1,2\}", "(1,2)", r"\{x|x<-1 \text{ or } x>2\}"),
    ),
    Pairs(
        "GaoKao", r"$a_n = 2n - 1$",
        ("a_n=2n-1", "2n-1", "a_{n} = 2n-1", r"a_n=2n-1, n\in\mathbb{N}^*", "a_n = 1+2(n-1)", "raw:所以 $a_n=2n-1$."),
        ("a_n=2n+1", "2n", "a_n = n-1", "a_n=2^n-1", "S_n=n^2", "a_n=1-2n"),
    ),
    Pairs(
        "GaoKao", r"$-\frac{\sqrt{3}}{2}$",
        (r"-\frac{\sqrt3}{2}", r"-\dfrac{\sqrt{3}}{2}", r"-\sqrt{3}/2", r"-0.5\sqrt3", r"-\frac{3}{2\sqrt3}"),
        (r"\frac{\sqrt3}{2}", r"-\frac{\sqrt2}{2}", r"-\frac{3}{2}", r"-\frac{\sqrt3}{3}", r"\pm\frac{\sqrt3}{2}", r"-\frac12"),
    ),
    Pairs(
        "GaoKao", "①③",
        ("①③", r"\text{①③}", "①、③", "③①", "①,③"),
        ("①②", "①", "③", "①②③", "②④"),
    ),
    Pairs(
        "GaoKao", "BCD",
        ("BCD", "B, C, D", "B、C、D", r"\text{BCD}", "DCB"),
        ("BC", "ABCD", "ABC", "B", "BD"),
    ),
    # approximations
    Pairs(
        "Minerva", "3.14159",
        ("3.14159", "3.14159265", r"\pi"),
        ("3.14", "3.1416", r"\sqrt{9.87}", "3.14169", "-3.14159", "3", "2.71828", "31.4159"),
    ),
    Pairs(
        "Minerva", "0.0833",
        ("0.0833", "0.08330", r"8.33 \times 10^{-2}"),
        ("0.833", "0.08", "0.0383", "-0.0833", "12", "8.33"),
    ),
    Pairs(
        "Minerva", r"4.5 \times 10^{-5}",
        ("4.5e-5", "0.000045", r"4.5 \cdot 10^{-5}", r"45\times10^{-6}", r"4.50 \times 10^{-5}"),
        (r"4.5\times10^{5}", r"4.5\times10^{-4}", "0.00045", r"5.4\times10^{-5}", "0", r"4\times10^{-5}", "4.5"),
    ),
    Pairs(
        "Minerva", r"\sqrt{2}",
        (r"\sqrt2", "2^{1/2}", r"\frac{2}{\sqrt2}", r"\sqrt{2} \approx 1.414", "√2"),
        (r"2\sqrt{}", "2", r"-\sqrt2", r"\sqrt3", r"\pm\sqrt{2}", "1.4", r"\frac{\sqrt2}{2}", r"\sqrt2 \approx 1.732"),
    ),
    Pairs(
        "SciBench", "-13.6",
        ("-13.6 eV", r"-13.6\text{ eV}", "-13.60", r"-\frac{68}{5}", "−13.6"),
        ("13.6", "-16.3", "-1.36", "-136", "-13.6 or 13.6", "-13"),
    ),
    # whole responses
    Pairs(
        "AMC", r"\textbf{(D) } 24",
        ("D", "(D)", "24", r"\textbf{(D)}\ 24", r"\text{D}", "raw:The answer is **(D) 24**.", "raw:Answer: D"),
        ("C", "(E)", "42", r"\textbf{(C) } 24", r"\textbf{(D) } 42", "A or D", "raw:Answer: B) 24"),
    ),
    Pairs(
        "AMC", "7",
        ("raw:### Step 1\nCount.\n\n### Final Answer\n\n\\[\n\\boxed{7}\n\\]", "raw:**Step 3:** $3 + 4 = 7$.\n\n**Answer: 7**", "raw:Thus, the number of ways is 7.\n\nThe final answer is: $\\boxed{7}$", "raw:\\[ \\boxed{7} \\]", "raw:So, the answer is **7**.", "raw:Final Answer: The final answer is $7$. I hope it is correct.", "raw:<answer>7</answer>", "raw:The answer is: 7<|im_end|>", "raw:$\\boxed{\\text{7}}$", "raw:Therefore the total is $\\mathbf{7}$."),
        ("raw:The answer is 7 or 8.", "raw:Possible answers: 5, 6, 7.", "raw:The answer is -7.", "raw:It is certainly not 7.", "raw:**Answer: 8** (not 7)", "raw:The answer is 1 2 3 4 5 6 7", "raw:\\boxed{7", "raw:<answer>6</answer> <answer>7</answer>", "raw:Is it 7? No, 8.\n\nAnswer: 8", "raw:7 is wrong.", "raw:The answer can't be 7.", "raw:between 6 and 7", "raw:The answer is at least 7.", "raw:Answer: 7 7 7 7 7 8"),
    ),
    Pairs(
        "AMC", r"\frac{11}{20}",
        ("raw:The probability is\n\\[\n\\frac{11}{20}.\n\\]\n\n\\(\\boxed{\\frac{11}{20}}\\)", "raw:Hence, $P = \\frac{11}{20} = 0.55$.", "raw:#### 11/20", "55%", "raw:So $P=\\boxed{\\dfrac{11}{20}}$.", "raw:The probability is 11/20."),
        ("raw:#### 9/20", "raw:$\\boxed{\\frac{11}{20}}$ or $\\boxed{\\frac{9}{20}}$", "raw:Hence, $P = \\frac{11}{20} = 0.45$.", "11/2", "20/11", "raw:1 - 11/20 = 9/20, so the answer is 9/20."),
    ),
    Pairs(
        "DeepSeek", r"\frac{9}{4}",
        ("raw:<think>\nLet me try 3/2. Hmm, (3/2)^2 = 9/4.\n</think>\n\n**Solution**\n\n$$\\left(\\tfrac32\\right)^2 = \\frac{9}{4}$$\n\n**Answer:** $\\boxed{\\dfrac{9}{4}}$", "2.25", r"2\frac14", r"\left(\frac{3}{2}\right)^2"),
        ("raw:<think>\nIt is 9/4.\n</think>\n\n$\\boxed{\\dfrac{3}{2}}$", "raw:<think>\nThe answer is \\boxed{\\frac{9}{4}}. Wait", r"\frac{4}{9}", "94", r"-\frac94"),
    ),
    Pairs(
        "Llama", "48",
        ("raw:## Step 1: Understand\nx\n\n## Step 2: Compute\n$6 \\cdot 8 = 48$\n\nThe final answer is: $\\boxed{48}$", "raw:The final answer is 48.", "raw:$48$", "raw:Answer: $48 \\text{ ways}$"),
        ("raw:The final answer is: $\\boxed{84}$", "raw:The final answer is: $\\boxed{48, 84}$", "raw:The final answer is not 48.", "raw:The final answer is: $\\boxed{4}8$", "raw:The final answer is 48 or 49, I'm not sure."),
    ),
    Pairs(
        "GPT", "x = 4",
        ("raw:**x = 4**", "raw:So the solution is \\( x = 4 \\).", "raw:Therefore, \\[\nx = 4.\n\\]", "4", "raw:The solution is $\\boxed{x=4}$. (The other root, $x=-1$, is extraneous.)", "raw:✅ **Answer:** $x = 4$"),
        ("raw:**x = -4**", "raw:\\( x = 4 \\) or \\( x = -1 \\)", "raw:\\boxed{x=4, x=-1}", "raw:x ≠ 4", "raw:$x > 4$", "raw:$\\boxed{x \\approx 4.1}$"),
    ),
    Pairs(
        "Qwen", "13",
        ("raw:To determine... we get:\n\n\\[\n5 + 8 = 13\n\\]\n\nThus, the answer is \\(\\boxed{13}\\).", "raw:因此，答案是 $\\boxed{13}$。", "raw:答案：13", "raw:所以，一共有13个。", "raw:```output\n13\n```\nThe answer is $\\boxed{13}$.", "raw:最终答案是：**13**"),
        ("raw:因此，答案是 $\\boxed{31}$。", "raw:答案不是13。", "raw:答案：12或13", "raw:```output\n13\n```\nThe answer is $\\boxed{14}$.", "raw:答案：13.5"),
    ),
    Pairs(
        "hedges", "42",
        ("raw:The answer is 42 (exactly).", "raw:Answer: 42 (since 6*7 = 42)", "42 (final)", "raw:It is 42, not 24."),
        ("raw:The answer might be 42 or 24.", "raw:I guess 24, maybe 42.", "raw:The answer is 24; 42 would be wrong.", "raw:Either 42 or 43.", "42 or so?? 43", "42?, 43?", "raw:My answer: 41, 42, 43", "raw:42 is what you would get if you forgot the sign, the answer is -42.", "raw:The answer is about 420.", "raw:Not 42.", "raw:42 + 1", "42/1.5", "raw:The answer is less than 42."),
    ),
)  # fmt: skip
