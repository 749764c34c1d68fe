"""The paper's own numbers, as printed: arXiv:1501.00125, tables and text of 'Experiments'.

Means and standard deviations over the paper's experiments. Everything that a report sets beside our numbers comes from
here, and nothing here was measured by us.
"""

from __future__ import annotations

Printed = tuple[float, float]

# Table 'Means and standard deviations of Q values calculated over 20 independent experiments of Models I and II'.
DIFFUSION_Q: dict[str, dict[str, Printed]] = {
    "Model I": {
        "k-medoids": (2.8138, 0.0317),
        "MMC": (2.8142, 0.0244),
        "PCCA+ (6)": (2.9603, 0.0170),
        "PCCA+ (10)": (2.9637, 0.0011),
        "PCCA+ (20)": (2.9628, 0.0017),
        "PCCA+ (30)": (2.9619, 0.0027),
        "PCCA+ (40)": (2.9613, 0.0021),
        "M3C": (2.9641, 0.0005),
    },
    "Model II": {
        "k-medoids": (2.9579, 0.0031),
        "MMC": (2.9832, 0.0116),
        "PCCA+ (6)": (2.9681, 0.0211),
        "PCCA+ (10)": (2.9666, 0.0161),
        "PCCA+ (20)": (2.9676, 0.0173),
        "PCCA+ (30)": (2.9655, 0.0187),
        "PCCA+ (40)": (2.9600, 0.0285),
        "M3C": (2.9882, 0.0024),
    },
}
# "in 9 out of 20 experiments of Model II, PCCA+ wrongly decomposes the right potential well ... (with any bin number),
# whereas M3C gives the ideal decomposition in all the 20 experiments".
DIFFUSION_RIGHT: dict[str, dict[str, str]] = {"Model II": {"PCCA+ (20)": "at most 11 of 20", "M3C": "20 of 20"}}

# Model I, one experiment: values of the objective functions in the text.
OBJECTIVES: dict[str, float] = {
    "M3C.paper, kinetic start": 0.0967,
    "M3C.paper, random start": 0.1553,
    "MMC.paper": 0.0496,
    "MMC.paper from M3C": 0.0652,
}

# Table 'Means and standard deviations of clustering errors (in percent) ...': (training, test).
SEQUENCE_ERRORS: dict[str, dict[str, tuple[Printed, Printed]]] = {
    "letter": {
        "k-medoids": ((8.6306, 3.0850), (8.6400, 3.0025)),
        "MMC": ((7.0090, 3.2752), (7.3600, 3.6059)),
        "PCCA+ (50)": ((2.2450, 1.0128), (2.7207, 1.4567)),
        "PCCA+ (200)": ((0.5450, 0.1849), (1.1171, 0.5746)),
        "PCCA+ (300)": ((0.4450, 0.2585), (0.7658, 0.5871)),
        "PCCA+ (400)": ((0.5950, 0.2837), (1.0270, 0.6299)),
        "M3C": ((0.1100, 0.0852), (0.2342, 0.1963)),
    },
    "satellite": {
        "k-medoids": ((2.3503, 0.8560), (6.7950, 1.3069)),
        "MMC": ((2.3058, 0.8616), (6.6450, 1.4365)),
        "PCCA+ (50)": ((0.7727, 0.2905), (1.1950, 0.3348)),
        "PCCA+ (200)": ((0.6600, 0.2741), (0.7727, 0.3457)),
        "PCCA+ (300)": ((0.7600, 0.2604), (0.9102, 0.3803)),
        "PCCA+ (400)": ((0.8600, 0.2501), (1.0720, 0.5436)),
        "M3C": ((0.0900, 0.0912), (0.3196, 0.1325)),
    },
    "spambase": {
        "k-medoids": ((36.8773, 1.8360), (45.0150, 4.2245)),
        "MMC": ((22.5923, 9.7192), (23.7650, 7.4026)),
        "PCCA+ (50)": ((23.6000, 9.2388), (24.7362, 7.8620)),
        "PCCA+ (200)": ((25.7450, 13.4768), (27.1355, 9.7611)),
        "PCCA+ (300)": ((22.7950, 12.4952), (23.9572, 8.3935)),
        "PCCA+ (400)": ((28.3671, 8.2107), (30.2900, 15.3507)),
        "M3C": ((8.5296, 1.2141), (12.2350, 1.0338)),
    },
    "waveform": {
        "k-medoids": ((46.6212, 2.8506), (47.4550, 2.0623)),
        "MMC": ((34.1600, 16.3716), (37.4900, 16.0950)),
        "PCCA+ (50)": ((23.5425, 2.6599), (27.2483, 3.7676)),
        "PCCA+ (200)": ((21.5525, 2.9225), (27.6700, 4.5708)),
        "PCCA+ (300)": ((26.1075, 8.1388), (33.6117, 9.91157)),
        "PCCA+ (400)": ((30.3725, 13.9271), (36.5450, 13.2638)),
        "M3C": ((15.0550, 7.1295), (22.2675, 10.4104)),
    },
    "segment": {
        "k-medoids": ((21.2417, 11.3240), (31.9750, 7.9013)),
        "MMC": ((8.1050, 3.9986), (18.3234, 18.1635)),
        "PCCA+ (50)": ((5.4500, 1.0273), (14.9662, 12.2071)),
        "PCCA+ (200)": ((2.6050, 0.4729), (10.2918, 12.3009)),
        "PCCA+ (300)": ((2.4850, 0.8845), (10.5916, 12.2503)),
        "PCCA+ (400)": ((2.3400, 0.6652), (9.1230, 9.8576)),
        "M3C": ((1.3750, 0.3059), (2.5392, 1.6581)),
    },
}

# Table 'Means and standard deviations of Q values calculated over 10 independent experiments of alanine dipeptide and
# 6 independent experiments of deca-alanine'. Other force field, temperature and frame spacing than our data: compare
# the order of the methods and their spread, not the values.
MOLECULE_Q: dict[str, dict[str, Printed]] = {
    "alanine dipeptide": {
        "k-medoids": (1.7655, 0.0027),
        "MMC": (2.1521, 0.5060),
        "PCCA+ (100)": (2.7360, 0.0077),
        "PCCA+ (200)": (2.7381, 0.0018),
        "PCCA+ (300)": (2.7367, 0.0059),
        "PCCA+ (400)": (2.7340, 0.0037),
        "PCCA+ (500)": (2.7328, 0.0052),
        "M3C": (2.7397, 0.0003),
    },
    "deca-alanine": {
        "k-medoids": (1.8113, 0.0502),
        "MMC": (1.8819, 0.0454),
        "PCCA+ (100)": (1.9033, 0.0292),
        "PCCA+ (200)": (1.8904, 0.0402),
        "PCCA+ (300)": (1.8894, 0.0815),
        "PCCA+ (400)": (1.9227, 0.0238),
        "PCCA+ (500)": (1.8896, 0.0764),
        "M3C": (1.9592, 0.0038),
    },
}
