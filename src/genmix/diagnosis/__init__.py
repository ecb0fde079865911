"""Which arms a mixture needs: leave-one-out, innovation, evidence against chance, verdict."""
