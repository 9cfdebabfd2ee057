# SPDX-License-Identifier: Apache-2.0
"""Layout of the arrays that the compiled observers share.

An observer is six float or integer arrays, for a compiled call pays for each argument:

* ``model``, the packed robot; ``fluid``, what is around it, flat, empty in the dry;
* ``tune``, its parameters;
* ``rows``, a row for each remembered event: what came, and the estimate right after it;
* ``index``, counters, then the numbers of the rows in the order of their stamps, as a ring;
* ``desk``, room for what a step computes on the way.
"""

# Kinds of events; of one stamp they count in this order
JOINTS = 0
WRENCH = 1
GYRO = 2
VELOCITY = 3
POSE = 4

# What became of a measurement
NOTHING = 0
USED = 1
REJECTED = 2
STARTED = 3  # a pose that the estimate began with, anew or for the first time

# Observers
EKF = 0
ALPHA_BETA = 1
LIE_GROUP = 2
DIFFERENTIATED = 3

# -- index ------------------------------------------------------------------------------------
# entries 0 to 3 count the verdicts above
LATE = 4
FUTURE = 5
REPEATED = 6
MALFORMED = 7
HEAD = 8  # where the oldest event stands in the ring
COUNT = 9  # events in the ring
STRANGE = 10  # joint samples in a row whose stamps do not fit the clock
HAS_JOINTS = 11
ORDER = 12  # the ring begins

# -- a row ------------------------------------------------------------------------------------
STAMP = 0
KIND = 1
VERDICT = 2
# the estimate, which the next event inherits, begins here
ALIVE = 3
T_COV = 4  # time that the covariance stands at
T_POSE = 5  # stamp of the last pose that was used
MISSES = 6  # poses rejected since
WIDE = 7  # how often it began anew without success
NIS = 8  # of the last pose
SPACING = 9  # between joint samples
G = 10  # 16 numbers
H = 26  # 6: momentum about POINT; locked velocity of {1^} (LIE_GROUP); velocity (DIFFERENTIATED)
F = 32  # 6: known base wrench
TRIM = 38  # 6: what a gyroscope says of the twist beyond the joints' noise
BIAS = 44  # 3
EXTERNAL = 47  # 6
MEMORY = 53  # covariance and what stood at T_COV (EKF), pose error (LIE_GROUP), last pose
# behind the memory, at tune[DATA], what came with the event

# What stood at T_COV, behind the covariance
TURN_COV = 0  # 9: attitude
RATE_COV = 9  # 36: of eps by eps
LIFT_COV = 45  # 36: of eps by zeta
ANCHOR = 81

# Data of joints; what every step reads stands first
XI = 0  # 6: A qd
MASS = 6  # 4: mass and its first moment
POINT = 10  # 3: where the moments of the momentum are taken, in {1}
LIFT = 13  # 36: mu for a momentum about POINT
LIGHT = 49
MB = 49  # 36
RATE = 85  # 36: dM_b/dt, for LIE_GROUP
CONN = 121  # A, (b, n) in 6 n numbers; then q and qd
# Data of a pose: 16 numbers, then its covariance; of a reading: three, axes, then its covariance
POSE_COV = 16
READING_AXES = 3  # 1 for the world's
READING_COV = 6

# -- tune -------------------------------------------------------------------------------------
METHOD = 0
B = 1
N = 2
D = 3  # size of the error state
BIAS_AT = 4  # where the bias stands in it, -1 for none
EXTERNAL_AT = 5
EXTERNAL_WORLD = 6
DATA = 7
COV_PERIOD = 8
MAX_STEP = 9
LEAD = 10  # how far a stamp may lie ahead of the joints
GAP = 11  # the longest that joints may be missing
PATIENCE = 12
GATE_POSE = 13
GATE_READING = 14
NEWEST = 15  # stamp of the newest joint sample
BANDWIDTH = 16
CUTOFF = 17
K1 = 18
K2 = 19
PRINTED = 20
TURNING = 21  # whether forces depend on the attitude
GYRO_BODY = 22
BIAS_START = 23  # variances
BIAS_WALK = 24
IOTA = 32  # (6, b), and so on in slots of 36
PINV = 68  # (b, 6)
Q_MU = 104  # (b, b)
START_MU = 140  # (b, b)
EXTERNAL_START = 176  # (b, b)
EXTERNAL_WALK = 212  # (b, b)
GYRO_ROTATION = 248  # (3, 3)
MU_0 = 284  # (b,)
M_0 = 320  # (b, b): M_b where the estimate began, for LIE_GROUP
QD_VARIANCE = 356  # (n,)

# -- desk -------------------------------------------------------------------------------------
SHAPE = 0  # joint data at the time of interest
PLACED_ROW = 1
SCREWS_ROW = 2
RATES_ROW = 3
VECTORS = 4  # small vectors, 16 apart
MATRICES = 5  # small matrices, 36 apart
COV_F = 6
COV_PHI = 7
COV_T = 8
GAIN = 9
MEASURE = 10
INERTIA_ROW = 11
DESK = 12
SMALL = 360  # room for ten small matrices
