"""Whether a few words look like one language or another, by their letters. Pure, linear.

For texts that hold no frequent word: `Buenos días` has none of Spanish. Each language is known by
groups of three letters in some common words of it, written down here.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

WORDS: Final[Mapping[str, str]] = {
    "en": (
        "water house people world school children morning night friend family mother father"
        " sister brother street city country work week month year summer winter spring autumn"
        " monday tuesday wednesday thursday friday saturday sunday january february march april"
        " thanks thank welcome please sorry goodbye everything nothing something anything every"
        " always never often little great beautiful happy strong bright quick light right thing"
        " think thought through though enough laugh knowledge write wrong answer question"
        " because between before after against should could would might where which while whose"
        " walking running eating drinking singing looking working playing reading writing being"
        " teacher student doctor reader writer player weather whether together another either"
        " apple bread cheese chicken fish milk sugar tree flower bird horse cat dog cow sheep"
        " blue green yellow black white brown purple seven eight three twelve hundred thousand"
        " happiness kindness weakness movement government development nation station decision"
        " quickly slowly really finally usually possible terrible useful wonderful careful the"
        " they them there these those this that shall ship shop fresh english fashion book books"
        " table chair window door room kitchen garden church bridge river ocean mountain hill"
        " forest field stone sand snow rain storm cloud sky moon star sun machine computer"
        " keyboard screen phone letter paper pencil picture music song dance orange language"
        " message village package garage average difference silence patience science official"
        " social special final total animal private create update late plate state robot photo"
        " potato level model hotel angel system item poem program team dream cream steam best"
        " test rest west ball wall tall fall call small group loop pool food good wood soon foot"
        " heart earth hear learn soft left gift deer career body copy lady ready busy effect"
        " object project subject correct strange exchange chance france prince voice device"
        " notice office lesson season reason person iron lemon vision mission rocket market"
        " basket ticket pocket planet planets engine magazine medicine famous nervous previous"
        " glass class grass press dress boss loss study story pretty skill skills speed sleep"
        " keep deep feel wheel kids toys games boats trains lunch dinner breakfast soup salad"
        " rice beef pepper butter coffee tea juice cake cookie safe brave love live give five"
        " nine time line mine size price ice nice mice slice history theory energy biology"
        " geography democracy economy chemistry physics electric training learning hiking"
        " cooking meeting building driving evening"
    ),
    "es": (
        "agua casa gente mundo escuela niños mañana noche amigo amiga familia madre padre"
        " hermana hermano calle ciudad país trabajo semana mes año verano invierno primavera"
        " otoño lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril"
        " gracias bienvenido bienvenidos buenos buenas días tardes noches favor perdón adiós"
        " luego nada algo siempre nunca poco grande hermoso feliz fuerte rápido claro cosa"
        " pensar escribir respuesta pregunta antes después contra debería podría dónde cuando"
        " mientras caminando corriendo comiendo bebiendo cantando trabajando jugando leyendo"
        " escribiendo maestro estudiante médico tiempo juntos otro otra manzana pan queso pollo"
        " pescado leche azúcar árbol flor pájaro caballo gato perro vaca oveja azul verde"
        " amarillo negro blanco rojo siete ocho tres doce cien mil felicidad bondad movimiento"
        " gobierno desarrollo nación estación decisión canción rápidamente lentamente realmente"
        " finalmente posible útil maravilloso cuidado libro libros mesa silla ventana puerta"
        " cocina jardín iglesia puente río océano montaña bosque campo piedra arena nieve lluvia"
        " tormenta nube cielo luna estrella sol máquina computadora pantalla teléfono carta"
        " papel lápiz música baile vale quiero quieres tengo gusta vamos llamo entiendo hablo"
        " español mucho mucha gusto"
    ),
    "pt": (
        "água casa gente mundo escola crianças manhã noite amigo amiga família mãe pai irmã"
        " irmão rua cidade país trabalho semana mês ano verão inverno primavera outono segunda"
        " terça quarta quinta sexta feira sábado domingo janeiro fevereiro março abril obrigado"
        " obrigada bem vindo vindos bom boa bons boas dia dias tarde noites favor desculpe tchau"
        " adeus até logo nada algo sempre nunca pouco grande bonito feliz forte rápido claro"
        " coisa pensar escrever resposta pergunta antes depois contra deveria poderia enquanto"
        " caminhando correndo comendo bebendo cantando trabalhando jogando lendo escrevendo"
        " professor aluno médico tempo juntos outro outra maçã pão queijo frango peixe leite"
        " açúcar árvore flor pássaro cavalo gato cachorro vaca ovelha azul verde amarelo preto"
        " branco vermelho sete oito três doze cem mil felicidade bondade movimento governo"
        " desenvolvimento nação estação decisão canção rapidamente lentamente realmente"
        " finalmente possível útil maravilhoso cuidado livro livros mesa cadeira janela porta"
        " cozinha jardim igreja ponte rio oceano montanha floresta campo pedra areia neve chuva"
        " tempestade nuvem céu lua estrela sol máquina computador tela telefone carta papel"
        " lápis música dança quero tenho gosto vamos chamo entendo falo português muito muita"
        " prazer"
    ),
    "fr": (
        "eau maison gens monde école enfants matin nuit ami amie famille mère père sœur frère"
        " rue ville pays travail semaine mois année été hiver printemps automne lundi mardi"
        " mercredi jeudi vendredi samedi dimanche janvier février mars avril merci beaucoup"
        " bienvenue bonjour bonsoir bonne journée soirée salut plaît pardon revoir bientôt"
        " demain rien quelque chose toujours jamais souvent peu grand grande belle beau heureux"
        " heureuse fort rapide clair penser écrire réponse question avant après contre devrait"
        " pourrait pendant marchant courant mangeant buvant chantant travaillant jouant lisant"
        " professeur élève médecin temps ensemble autre pomme pain fromage poulet poisson lait"
        " sucre arbre fleur oiseau cheval chat chien vache mouton bleu vert jaune noir blanc"
        " rouge sept huit trois douze cent mille bonheur gentillesse mouvement gouvernement"
        " développement nation gare décision chanson rapidement lentement vraiment finalement"
        " possible utile merveilleux attention livre livres chaise fenêtre porte cuisine jardin"
        " église pont rivière montagne forêt champ pierre sable neige pluie orage nuage ciel"
        " lune étoile soleil ordinateur écran téléphone lettre papier crayon musique danse veux"
        " j'ai j'aime allons m'appelle comprends parle français d'accord l'eau c'est qu'il n'est"
        " l'école l'homme aujourd'hui"
    ),
    "de": (
        "wasser haus leute welt schule kinder morgen nacht freund freundin familie mutter vater"
        " schwester bruder straße stadt land arbeit woche monat jahr sommer winter frühling"
        " herbst montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz"
        " april danke dankeschön willkommen bitte entschuldigung tschüss wiedersehen guten tag"
        " abend gute nichts etwas immer niemals oft wenig groß schön glücklich stark schnell"
        " klar sache denken schreiben antwort frage vorher nachher gegen sollte könnte während"
        " gehen laufen essen trinken singen arbeiten spielen lesen lehrer schüler arzt zeit"
        " wetter zusammen andere apfel brot käse hähnchen fisch milch zucker baum blume vogel"
        " pferd katze hund kuh schaf blau grün gelb schwarz weiß rot sieben acht drei zwölf"
        " hundert tausend freude freundlichkeit bewegung regierung entwicklung nation bahnhof"
        " entscheidung langsam wirklich endlich möglich nützlich wunderbar vorsicht buch bücher"
        " tisch stuhl fenster tür küche garten kirche brücke fluss meer berg wald feld stein"
        " sand schnee regen sturm wolke himmel mond stern sonne maschine rechner bildschirm"
        " brief papier bleistift musik tanz möchte habe mag heiße verstehe spreche deutsch"
        " natürlich jawohl genau vielen"
    ),
    "it": (
        "acqua casa gente mondo scuola bambini mattina notte amico amica famiglia madre padre"
        " sorella fratello strada città paese lavoro settimana mese anno estate inverno"
        " primavera autunno lunedì martedì mercoledì giovedì venerdì sabato domenica gennaio"
        " febbraio marzo aprile grazie benvenuto benvenuti prego scusa scusi arrivederci"
        " buongiorno buonasera buona giornata serata buono niente qualcosa sempre mai spesso"
        " poco grande bello bella felice forte veloce chiaro pensare scrivere risposta domanda"
        " prima dopo contro dovrebbe potrebbe mentre camminando correndo mangiando bevendo"
        " cantando lavorando giocando leggendo maestro studente medico tempo insieme altro altra"
        " mela pane formaggio pollo pesce latte zucchero albero fiore uccello cavallo gatto cane"
        " mucca pecora azzurro blu verde giallo nero bianco rosso sette otto tre dodici cento"
        " mille felicità gentilezza movimento governo sviluppo nazione stazione decisione"
        " canzone rapidamente lentamente veramente finalmente possibile utile meraviglioso"
        " attenzione libro libri tavolo sedia finestra porta cucina giardino chiesa ponte fiume"
        " oceano montagna bosco campo pietra sabbia neve pioggia tempesta nuvola cielo luna"
        " stella sole macchina schermo telefono lettera carta matita musica danza voglio piace"
        " andiamo chiamo capisco parlo italiano certo"
    ),
    "pl": (
        "woda dom ludzie świat szkoła dzieci ranek noc przyjaciel rodzina matka ojciec siostra"
        " brat ulica miasto kraj praca tydzień miesiąc rok lato zima wiosna jesień poniedziałek"
        " wtorek środa czwartek piątek sobota niedziela styczeń luty marzec kwiecień dziękuję"
        " dzięki proszę przepraszam witaj witam widzenia dzień dobry wieczór dobranoc nic coś"
        " zawsze nigdy często mało duży wielki piękny szczęśliwy silny szybki jasny rzecz myśleć"
        " pisać odpowiedź pytanie przed potem przeciw powinien mógłby podczas nauczyciel uczeń"
        " lekarz czas pogoda razem inny jabłko chleb ser kurczak ryba mleko cukier drzewo kwiat"
        " ptak koń kot pies krowa owca niebieski zielony żółty czarny biały czerwony siedem"
        " osiem trzy dwanaście sto tysiąc szczęście ruch rząd rozwój naród stacja decyzja"
        " piosenka szybko powoli naprawdę wreszcie możliwy użyteczny cudowny książka stół"
        " krzesło okno drzwi kuchnia ogród kościół most rzeka góra las pole kamień piasek śnieg"
        " deszcz burza chmura niebo księżyc gwiazda słońce ekran telefon list papier muzyka"
        " taniec chcę mam lubię idziemy rozumiem mówię polsku oczywiście bardzo kawa herbata"
    ),
    "vi": (
        "nước nhà người thế giới trường trẻ sáng đêm bạn gia đình mẹ cha chị anh đường thành"
        " phố đất việc tuần tháng năm mùa hè đông xuân thu thứ hai ba tư sáu bảy chủ nhật cảm ơn"
        " xin chào vui lòng lỗi tạm biệt không luôn to đẹp hạnh phúc mạnh nhanh cáo gà cá sữa"
        " cây hoa chim ngựa mèo chó bò xanh vàng đen trắng đỏ sách bàn ghế cửa sông núi rừng đá"
        " mưa trăng sao trời tiếng việt nam trong ngoai ngon thanh nhung chung nghi nguyen phong"
        " thuong minh quang"
    ),
    "sw": (
        "maji nyumba watu dunia shule watoto asubuhi usiku rafiki familia mama baba dada kaka"
        " barabara mji nchi kazi wiki mwezi mwaka joto baridi jumatatu jumanne jumatano alhamisi"
        " ijumaa jumamosi jumapili asante karibu tafadhali samahani kwaheri habari njema mwema"
        " hujambo sijambo jambo kitu chochote daima kamwe mara kidogo kubwa nzuri furaha nguvu"
        " haraka wazi fikiri andika jibu swali kabla baada dhidi wakati kutembea kukimbia kula"
        " kunywa kuimba kufanya kucheza kusoma mwalimu mwanafunzi daktari pamoja nyingine tofaa"
        " mkate kuku samaki maziwa sukari mti maua ndege farasi paka mbwa ng'ombe kondoo bluu"
        " kijani njano nyeusi nyeupe nyekundu saba nane tatu kumi mia elfu serikali maendeleo"
        " taifa uamuzi wimbo polepole kweli hatimaye kitabu vitabu meza kiti dirisha mlango"
        " jikoni bustani kanisa daraja mto bahari mlima msitu shamba jiwe mchanga mvua wingu"
        " anga nyota jua barua karatasi muziki ngoma nataka ninapenda twende naitwa naelewa"
        " nasema kiswahili hakuna matata pole sana ndiyo chakula wanyama simba tembo"
    ),
    "fi": (
        "vesi talo ihmiset maailma koulu lapset aamu yö ystävä perhe äiti isä sisko veli katu"
        " kaupunki maa työ viikko kuukausi vuosi kesä talvi kevät syksy maanantai tiistai"
        " keskiviikko torstai perjantai lauantai sunnuntai tammikuu helmikuu maaliskuu huhtikuu"
        " kiitos kiitoksia tervetuloa tervetullut ole hyvä anteeksi näkemiin huomenta päivää"
        " iltaa yötä mitään jotain aina koskaan usein vähän suuri iso kaunis onnellinen vahva"
        " nopea selvä asia ajatella kirjoittaa vastaus kysymys ennen jälkeen vastaan pitäisi"
        " voisi aikana opettaja oppilas lääkäri aika sää yhdessä toinen omena leipä juusto kana"
        " kala maito sokeri puu kukka lintu hevonen kissa koira lehmä lammas sininen vihreä"
        " keltainen musta valkoinen punainen seitsemän kahdeksan kolme kaksitoista sata tuhat"
        " onni liike hallitus kehitys kansa asema päätös laulu nopeasti hitaasti todella lopuksi"
        " mahdollinen hyödyllinen ihana kirja kirjat pöytä tuoli ikkuna ovi keittiö puutarha"
        " kirkko silta joki meri vuori metsä pelto kivi hiekka lumi sade myrsky pilvi taivas kuu"
        " tähti aurinko kone puhelin kirje paperi musiikki tanssi haluan rakastan mennään"
        " ymmärrän puhun suomea tietysti"
    ),
}
"""Common words, by language."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_LETTERS: Final = 32
"""Different ones that a language may have; so many that an unseen group of letters costs."""


def likeness(text: str, code: str) -> float:
    """How much the words look like those of a language that is known here: the mean logarithm of
    how likely each letter is behind the two before it."""
    groups, pairs = _counts(code)
    found = [_likely(group, groups, pairs) for word in _words(text) for group in _groups(word)]
    return sum(found) / len(found) if found else -math.inf


def _likely(group: str, groups: Mapping[str, int], pairs: Mapping[str, int]) -> float:
    pair = group[:2]
    return math.log((groups.get(group, 0) + 0.1) / (pairs.get(pair, 0) + 0.1 * _LETTERS))


def _words(text: str) -> Iterable[str]:
    return (word.replace("\u2019", "'") for word in _WORD.findall(text.lower()))


def _groups(word: str) -> Iterable[str]:
    said = f"  {word} "
    return (said[at : at + 3] for at in range(len(said) - 2))


@cache
def _counts(code: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Groups of three letters of a language, and of the first two of them."""
    groups = Counter(group for word in set(WORDS[code].split()) for group in _groups(word))
    pairs = Counter[str]()
    for group, count in groups.items():
        pairs[group[:2]] += count
    return groups, pairs
