"""UMB files that Storm 2.0 wrote of two small models, and a writer of our own for what else the format allows."""

import base64
import io
import json
import tarfile

import numpy as np

PROGRAM = """
mdp
module m
  x : [0..2] init 0;
  y : [0..1] init 0;
  [go] x<2 -> 0.9 : (x'=x+1) + 0.1 : (x'=0);
  [stay] x<2 -> (y'=1-y);
  [] x=2 -> 1/3 : (x'=0) + 2/3 : true;
  [] x=2 -> (x'=1);
endmodule
label "home" = x=2;
label "odd" = mod(x,2)=1 | y=1;
rewards "time"
  x=1 : 2;
  [go] true : 1.5;
endrewards
rewards "energy"
  true : 1;
  [stay] true : 3;
endrewards
"""

MDP = base64.b64decode(
    """
H4sIANcC/2oAA+2dzXbjNBTHO6WdMxQOHHiCHM+GBZnxtxk2mXfgsOLMQonVVODaxnY6Ezh9EHgT3gGWPAI7FrNkiWzLiS3bUZ0qcpu5v40a
fVnW9V9XsmWXhD5+9+LHNApPDoau657nTfKQwoe6q5vmRN8y0Q3D8NyTiX64Jm1ZpRlKaFPuWw9/co+EXy8mFA2FYZShjERhqn07KSPLhLgZ
UUT6GPlBtPiplVIWCQjKC22zfd2RKY4DgtNpFtGcP7TSizzUMhlOtVbim476snWMO5tT1kR+yVONdsF6YW0eRUH7cLeNmNtmHdpVdN194G0/
FFmOuQ8i3xd0QZ7jqHpg86vWF1qC36LE7xAMDnGyXAv6iGW6Xzf1nNviKiKLu/ZiEL3FCT2Svm8Pu7agi/1oNQ/w0MssI0KpFVmgB9u/yr9Y
j2qXJMBTH2WoOdgvElz4gDypUIr3ytFfeZZu1S7yLJcHbcF3WZRca81qaQzKpgm+ISmtZtsBVcoNTlgCE6GWJShMSXHQdJ1m+LrZoudzmr64
mqJF5ZtqXVql4jze+KaeUFqrVsxqpxalzHo8CWlLUDBlV0JjqNCeR/MUJzeosyFxgNb03Pgim4rcWiw7pTiJ5mhOApKtp53XRN+10HsN1Ici
phXNJym1aoabhrpBwarL22/ay7VkEaA0LRLa2um5kG9QQhBtXneh3YU3lezQUSNfiMqzfdej3k3G6PIyxdkdatyp0kZOZiVzd4X1SrUVCbO2
dOvcCpq3iuOiY8zebDtqkNzpXS6rkfFwnd7jyrsqldjpxgE6PUa+T8Ilrd3pr70z5Y3AB3D+SVuF5OdV3iOXKEgx7yAubsdekQAqKUZ8Oi2a
Mp/4Yk6k3wkQrP9pqs6t/+mMA9b/Sjll4RkLn7LwGQsvWPipshYBKij1T9Ipm/uOon+jQ/8O6F8FT8ZuADAqbKFMJwDVWlr+CCDSv+G09G8Z
HuhfJZX//4iF5yzk5wEfs/ATFlbzgc9Y+DkLv2DhlxLbCMiH3Yyi+qcyWOJsDP9vmm3/bxqgf5VU84BTLr4aD8649LOTbqr8fH3ngvi++oDD
stV/7X605EFguP5t3bFA/yr4/becP2Z//Znz76yMfT8bGv99wd8s/Gfv/OrOHMhhT8hestt/Lw9xDJH+C8039G+atnsycQ7RGJ4PXP+8/fMn
g7LXgEL7u63x34T7v2rI52OnHSGfDhwnvP7TLCHhcnqN4piGcsYBof5tXv+O69mg/zGotP50Zy7gWOjWv9wJgHj+5/L+37Z00L8KlhE9//XY
rQDGorbx/yBrvxyx/nn/bzgmrP+UULc/ih/M+t8yDLC/Cnj7V+/syLwQhtvf1h0P7K+CXvuXW8GlXAbD7e9Yrgn2V4HI/jLuBwrt39r/5Vk2
7P8CgIPD6z9/V1X2JHD4+G+ZNsz/lNBpf4m+P2e4/W3HtsH+Kthlf1nPAof7f9cxYf+nEr4auwHAqPD6j3xf+j2gPfw/rP8V0WV/ye5/H/8P
639F7LC/tK1Ae/h/WP8rwh27AcCo1PXPPl/0EPy/4Tkw/qugy/7lh6hG9f+2C89/lbDD/tKmgcPt73ge3P9Tgtj+958GCu3f2v/teS68/6eQ
97NhIXAs7NC/tFeCho//rqFbMP6r4A72v7cDENnf4Pf/m7SACeO/ep69HvZbVB546HTpP/926Mj7/wwLxn8l9Np/3P1/tgXrfyWI7K9k/197
/Web8P7vGLweGA88cnr1L/GDEHuM/46jw/ivAqH9JTgAkf1b6z/DcyzY/6WQ/2bDfovKA4+F7X+CONjrn3uM/4blwPxfCTX7y972tWG4/U3X
hed/Smjbfxsj6yMQYvvz339wwP+r4snZ6Tl87AUAAOCD438MYEd+AHgAAA==
"""
)
"""Of PROGRAM."""

CTMC = base64.b64decode(
    """
H4sIANcC/2oAA+1cvZLbNhA+3/nn5ibjxJ2LFBomZWjzV4zd6NrUnlQZF5AE3SGhSJqAZF8yeodMOvst3LhKlSZP4CKTKkWqpPADpAhIgRIJ
kmKokFDO2W80swcssAB3sYsfgkeCKX7x4GsaBke9wTAMz/MGCeWQqeEMTWdgbDEwTNMy7KOB0V+XtlhQhmLelX8rR364a4LvzgYcGgqCkCFG
woBqjwfrzDUjKmakmVOMpn44+abEWVfxCUoqbYt9VlEoinyCqc5CXvKrEj8twy3DMNVKzKcV8thVhCu7s5ZEvk24ZrlivrI2DkO/3NyqkLMq
ytBmC99v0ENa5L3SwSaV04YW4+conlYMl6BBP4EK5fjhcxxzUca+ihs6DZqbhouxj1voLv1LaFCbER/rU8RQ0f8mMU7dMmGl5vMeucYjzzbs
nOZZYjPegycsjOdaUSzPQUyP8ZJQLmargIyzxLFgiJGhsRgFlKSN0ivK8LzYo0/GnD+51NEkCxc5lWZcTNO+5hmTy5BMcK6aWeYm2Z/ns0nA
O4J8XVhaqhSOKY6XqLIfkY+u+KPJ2RtB+WbEE0VxOEZj4hN2pVcOibqhUDsE8u6BXxBuB956D7IZmadlKAsnl4gyMimOgiXyF1XRfaMNqS8T
H1GaMsqeV+MlSxQTxDtYXWl35Y2QAK2fYxFVhIRCyZ0uWyi5O+5VCa2JgXmsarmr+nYaHj6LUHpDVzdaqoqbhYLhbEYx+yciW6vTaqHOBQlY
gzobureIolQ1Vg9qj9B0SoILLt2tl17JedoQ6qVpSFsE5Nki0cgM+RTL88DZ6hDrvzQC6ITqItI+GJPOdwIN63/DMA1p/c+nNxfW/ypw49Ad
ABwUa/9nob5ZnnQfAZr83zRK/m+b4P8Kcfe8SP8arel9kT4+L6Y/ktKA6wqxK+MBINu4HcD/y/O/bcL5n1KcCHpb0FNBzwT9QNC7gn4o6L2e
+wXoF+Log/s/d4MLzA6x/rcq1v+WAf6vAtn6/1jQE4l/U9BbUv7tmnQm746UzuRm7dTJBajF1v9zp58dB4H2/u8YrgX+rwKvXib4ZXQvxW+C
vt6ki/zXo1/fzPnvj9EPn37Bfz+Nvkzxu6BvRx///Iz//hT0xxJ/3eq7mnyAaojXMQ/F+5eHfbTR5P9Gaf9vWc7waOD20RkZ/3P/l+2fvCnq
eg/YaH+nFP8t24H4DwD0Ddn/KYtJcKHPURRx2k0caPR/S/Z/d+jB+g8A6B3V/t/tAqD9+s9xLPB/Jchd/Oxl7Z+gvf1N14L1vxLk7Y+i/8z+
zzZNsL8KyPbP7mx3ORD2iP+G64H9VaDW/uuroZ0Mg/b2d+2hBfZXgSb7d3Ee1Gj/0vm/Zztw/wcA6B2y/yffKnW9CGwf/23LtSH+q0Cl/Tuc
+xO0t7/jurD/U4Jd9u/qXVD7+X/oOibM/yrw/aE7ADgo8v4vPuDt/Axoj/nf9FyI/ypQZf+g4xGwh/0dG/b/SlBt/24XgO3t73g2+L8S7LR/
RwvAJvuXv/8aenD/WyXeZfcvz6vzT8+r+adSGnDdsP3PEL29/t3n/a8N+381yNm/41OfLdrb3xoO4f2vEpTtv83p6hJQo/1L5z+ua8P9HyU4
uXXj+M7N0udcAAAAAHjP8Teo8aH6AFYAAA==
"""
)
"""A queue whose server breaks down, in continuous time."""


def tar_of(index, files):
    """An archive of an index and of files, of which arrays are written as they are in memory."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, data in {"index.json": json.dumps(index).encode(), **files}.items():
            data = data if isinstance(data, bytes) else np.asarray(data).tobytes()
            info = tarfile.TarInfo(name if name.endswith(".json") else f"{name}.bin")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return target.getvalue()


def system(**changed):
    """Index of two states: the first has the actions stay and go, the second has one; rewards of branches."""
    sizes = {"#players": 1, "#states": 2, "#initial-states": 1, "#choices": 3, "#choice-actions": 2}
    sizes |= {"#branches": 4, "#branch-actions": 0, "#observations": 0, "time": "discrete"}
    return {
        "format-version": 1,
        "format-revision": 0,
        "transition-system": sizes | {"branch-probability-type": {"type": "double"}} | changed,
        "annotations": {
            "aps": {"0": {"alias": "at home", "applies-to": ["states"], "type": {"type": "bool"}}},
            "rewards": {"pay": {"applies-to": ["branches"], "type": {"type": "double"}}},
        },
    }


FILES = {
    "state-to-choices": np.array([0, 2, 3], np.uint64),
    "state-is-initial": np.array([2, 0, 0, 0, 0, 0, 0, 0], np.uint8),  # the second
    "choice-to-branches": np.array([0, 2, 3, 4], np.uint64),
    "branch-to-target": np.array([0, 1, 1, 0], np.uint64),
    "branch-to-probability": np.array([0.25, 0.75, 1, 1]),
    "actions/choices/values": np.array([1, 0, 1], np.uint32),
    "actions/choices/string-mapping": np.array([0, 2, 6], np.uint64),
    "actions/choices/strings": b"gostay",
    "annotations/aps/0/states/values": np.array([1, 0, 0, 0, 0, 0, 0, 0], np.uint8),
    "annotations/rewards/pay/branches/values": np.array([4.0, 0.0, 1.0, 2.0]),
}
